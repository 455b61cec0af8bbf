/* base.js: what all panels use. Whatever comes from a document becomes text by textContent, never markup. */
(function (ls) {
	"use strict";

	/* kind -> function (panel, body, document): fills the body of a panel. Files add themselves here. */
	ls.panels = {};

	/* ---- elements ---- */

	function add(parent, children) {
		for (const child of children)
			if (child !== null && child !== undefined)
				parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
		return parent;
	}

	/* el("p", "class", text or child, ...) */
	ls.el = function (tag, name, ...children) {
		const e = document.createElement(tag);
		if (name) e.className = name;
		return add(e, children);
	};

	const SVG = "http://www.w3.org/2000/svg";
	/* svg("rect", {x: 1}, child ...) */
	ls.svg = function (tag, attributes, ...children) {
		const e = document.createElementNS(SVG, tag);
		for (const key in attributes) e.setAttribute(key, attributes[key]);
		return add(e, children);
	};

	ls.button = function (label, title, act) {
		const b = ls.el("button", "ls-button", label);
		b.type = "button";
		b.title = title;
		b.addEventListener("click", act);
		return b;
	};

	/* Calls draw(width), which gives an element, by ls.drawFresh and whenever the box has another width. */
	ls.fit = function (box, draw) {
		let last = 0;
		const again = function (width) {
			if (Math.abs(width - last) < 1 || width <= 0) return;
			last = width;
			box.replaceChildren(draw(width));
		};
		ls.watch(box, again);
		return () => { last = 0; again(box.clientWidth); };
	};
	/* Calls act(width) by ls.drawFresh, and at each other width, until the box is taken out of the page. */
	ls.watch = function (box, act) {
		/* In the next frame: what is drawn may change the size of what is watched. */
		const observer = new ResizeObserver(function () {
			if (box.isConnected) requestAnimationFrame(() => act(box.clientWidth));
			else observer.disconnect();
		});
		observer.observe(box);
		fresh.push([box, act]);
	};
	let fresh = [];
	/* Draws what was made since the last call and stands in the page now: all widths first, so that they are laid
	 * out once. */
	ls.drawFresh = function () {
		const list = fresh.map(([box, act]) => [box.clientWidth, act]);
		fresh = [];
		for (const [width, act] of list) if (width > 0) act(width);
	};

	/* ---- numbers for people ---- */

	const prefixes = ["", "k", "M", "G", "T", "P", "E"];

	/* Thousands as the program writes them: 9,143. */
	ls.whole = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");
	/* Three digits, or as many as are asked for: 1.53, 15.3, 153 */
	ls.digits = function (x, count) {
		const size = Math.abs(x), most = count || 3;
		if (size === 0) return "0";
		if (size >= 100 && most <= 3) return String(Math.round(x));
		return String(Number(x.toPrecision(most)));
	};
	ls.seconds = function (s, count) {
		const size = Math.abs(s);
		if (size === 0) return "0 s";
		if (size >= 3600 * 48) return ls.digits(s / 86400, count) + " days";
		if (size >= 7200) return ls.digits(s / 3600, count) + " h";
		if (size >= 120) return ls.digits(s / 60, count) + " min";
		if (size >= 0.9995) return ls.digits(s, count) + " s";
		if (size >= 0.9995e-3) return ls.digits(s * 1e3, count) + " ms";
		if (size >= 0.9995e-6) return ls.digits(s * 1e6, count) + " us";
		return ls.digits(s * 1e9, count) + " ns";
	};
	ls.bytes = function (b, count) {
		const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
		let i = 0;
		for (; Math.abs(b) >= 1023.5 && i + 1 < units.length; i++) b /= 1024;
		return ls.digits(b, count) + " " + units[i];
	};
	/* 1.5 k, 989 T */
	ls.count = function (x, unit, count) {
		let i = 0;
		for (; Math.abs(x) >= 999.5 && i + 1 < prefixes.length; i++) x /= 1000;
		const tail = prefixes[i] + (unit || "");
		return ls.digits(x, count) + (tail ? " " + tail : "");
	};
	ls.percent = (share) => (share * 100).toFixed(1) + " %";
	ls.quantity = function (x, unit, count) {
		if (unit === "s") return ls.seconds(x, count);
		if (unit === "bytes") return ls.bytes(x, count);
		if (unit === "%") return ls.percent(x);
		return ls.count(x, unit, count);
	};
	/* Texts of an axis: format(value, digits) with the fewest digits that tell them apart. */
	ls.labels = function (values, format) {
		let texts = [];
		for (let count = 3; count < 9; count++) {
			texts = values.map((v) => format(v, count));
			if (new Set(texts).size === texts.length) break;
		}
		return texts;
	};

	/* ---- what can wait ---- */

	const IDLE_MS = 8, SETTLE_MS = 120;
	let waiting = [], asked = false, settled = 0;

	function oneTurn(idle) {
		asked = false;
		if (performance.now() < settled) return nextTurn();
		const end = performance.now() + Math.max(1, idle ? idle.timeRemaining() : IDLE_MS);
		while (waiting.length && performance.now() < end) waiting.shift()();
		if (waiting.length) nextTurn();
	}
	function nextTurn() {
		if (asked) return;
		asked = true;
		const left = settled - performance.now();
		if (left > 0) setTimeout(() => { asked = false; nextTurn(); }, left);
		else if (window.requestIdleCallback) requestIdleCallback(oneTurn, {timeout: 1000});
		else setTimeout(oneTurn, IDLE_MS);
	}
	/* Something else comes first for a moment: pictures follow one another. */
	ls.hold = function () {
		settled = performance.now() + SETTLE_MS;
	};
	/* Calls act when the browser has nothing better to do, in the order of the calls; at the latest before it
	 * prints. */
	ls.later = function (act) {
		waiting.push(act);
		nextTurn();
	};
	ls.now = function () {
		while (waiting.length) waiting.shift()();
	};
	addEventListener("beforeprint", ls.now);

	/* ---- what the pointer is at ---- */

	let tip = null;

	function place(event) {
		const gap = 14, box = tip.getBoundingClientRect();
		let x = event.clientX + gap, y = event.clientY + gap;
		if (x + box.width > innerWidth - 8) x = Math.max(8, event.clientX - gap - box.width);
		if (y + box.height > innerHeight - 8) y = Math.max(8, event.clientY - gap - box.height);
		tip.style.left = x + "px";
		tip.style.top = y + "px";
	}

	ls.untip = function () {
		if (tip) tip.hidden = true;
	};
	/* Shows lines near the pointer; the first one stands out. */
	ls.showTip = function (event, lines) {
		if (!tip || !tip.isConnected) {
			tip = ls.el("div", "ls-tip");
			tip.setAttribute("role", "tooltip");
			document.body.append(tip);
		}
		tip.replaceChildren(...lines.filter(Boolean).map((line, i) => ls.el("div", i ? "" : "ls-tip-head", line)));
		tip.hidden = false;
		place(event);
	};
	/* An element that tells about itself: lines() where the pointer is at it, and its name for those who cannot see
	 * it. */
	ls.tells = function (element, lines) {
		const show = (event) => ls.showTip(event, lines());
		element.addEventListener("pointerenter", show);
		element.addEventListener("pointermove", show);
		element.addEventListener("pointerleave", ls.untip);
		if (!element.hasAttribute("role") && element.namespaceURI === SVG) element.setAttribute("role", "img");
		element.setAttribute("aria-label", lines().filter(Boolean).join(", "));
		return element;
	};

	/* ---- copying ---- */

	function copyOldWay(text) {
		const area = ls.el("textarea");
		area.value = text;
		document.body.append(area);
		area.select();
		const done = document.execCommand("copy");
		area.remove();
		return done ? Promise.resolve() : Promise.reject(new Error("not allowed"));
	}

	/* Says something on a button for a moment. */
	ls.tellFor = function (button, said) {
		if (!button.dataset.label) button.dataset.label = button.textContent;
		button.textContent = said;
		clearTimeout(Number(button.dataset.timer));
		button.dataset.timer = setTimeout(() => { button.textContent = button.dataset.label; }, 1200);
	};
	/* Copies, and says so. */
	ls.copy = function (text, button) {
		const way = navigator.clipboard && isSecureContext
			? navigator.clipboard.writeText(text).catch(() => copyOldWay(text)) : copyOldWay(text);
		return way.then(() => "copied", () => "cannot copy").then((said) => ls.tellFor(button, said));
	};

	/* ---- saving ---- */

	/* A file of this page's making, into the browser's folder of downloads. */
	ls.save = function (name, type, content) {
		const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type: type}));
		const link = ls.el("a");
		link.href = url;
		link.download = name;
		document.body.append(link);
		link.click();
		link.remove();
		setTimeout(() => URL.revokeObjectURL(url), 60000);
	};
	/* "Where one step goes" as "where-one-step-goes.csv". */
	ls.fileName = (title, ending) => (String(title).toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "")
		.slice(0, 60) || "table") + "." + ending;
	/* Adds a form to what the panel of a frame can be saved as; act(title) saves it. */
	ls.saves = function (frame, label, act) {
		if (!frame.saves) {
			frame.saves = ls.el("details", "ls-saves", ls.el("summary", "ls-button", "Save"));
			frame.tools.append(frame.saves);
		}
		frame.saves.append(ls.button(label, "save as " + label, act));
	};

	/* A legend of [{key, label}]. */
	ls.legend = function (parts) {
		const list = ls.el("ul", "ls-legend");
		for (const part of parts) list.append(ls.el("li", "", ls.el("i", "ls-swatch ls-k-" + ls.key(part.key)),
			part.label));
		return list;
	};
	/* A key as part of a class name. */
	ls.key = (key) => String(key).replace(/[^a-z0-9_-]/gi, "_").slice(0, 40);

	/* ---- axes ---- */

	/* Round numbers from low to high, about `count` of them. */
	ls.ticks = function (low, high, count) {
		const span = high - low, list = [];
		if (!(span > 0)) return [low];
		const rough = span / Math.max(1, count), power = Math.pow(10, Math.floor(Math.log10(rough)));
		const step = [1, 2, 2.5, 5, 10].map((x) => x * power).find((x) => x >= rough * 0.999);
		for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) list.push(i * step);
		return list;
	};
	/* The same for bytes: steps of powers of two of the unit. */
	ls.byteTicks = function (high, count) {
		const unit = Math.pow(1024, Math.floor(Math.log2(Math.max(high, 1)) / 10));
		return ls.ticks(0, high / unit, count).map((x) => x * unit);
	};
})(window.lockstep = window.lockstep || {});
