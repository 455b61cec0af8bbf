/* picture.js: a chart as a file, SVG or PNG: what the style sheet says becomes attributes, its title and legend stand
 * above it. */
(function (ls) {
	"use strict";

	const STYLED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity",
		"font-size", "font-weight", "paint-order"];
	const WIDE = 900, PAD = 14, LINE = 20, TITLE = 26, FONT = "system-ui, sans-serif", SHARP = 2;

	function style(copy, original) {
		const said = getComputedStyle(original);
		for (const name of STYLED) copy.setAttribute(name, said.getPropertyValue(name));
		for (const name of ["class", "tabindex", "role", "aria-label"]) copy.removeAttribute(name);
		[...original.children].forEach((child, i) => style(copy.children[i], child));
	}

	/* Entries of the legend that the page shows, in lines of the width. */
	function legend(list, width, top) {
		const parts = [];
		let x = PAD, y = top;
		for (const entry of list ? list.children : []) {
			const mark = entry.firstElementChild, text = entry.textContent, room = 34 + text.length * 6.6,
				said = mark && getComputedStyle(mark.querySelector ? mark.querySelector("line") || mark : mark);
			if (x + room > width && x > PAD) x = PAD, y += LINE;
			const colour = said ? mark.tagName === "svg" ? said.stroke : said.backgroundColor : "none";
			parts.push(ls.svg("rect", {x: x, y: y - 10, width: 11, height: 11, rx: 3, fill: colour}),
				ls.svg("text", {x: x + 16, y: y, "font-size": 12, fill: getComputedStyle(entry).color}, text));
			x += room;
		}
		return {parts: parts, bottom: parts.length ? y + LINE - 6 : top - 8};
	}

	/* The chart as a document of its own. */
	function standalone(panel, drawing, list, box) {
		const view = drawing.viewBox.baseVal, width = view.width + 2 * PAD, said = getComputedStyle(box);
		const above = legend(list, width, PAD + TITLE + LINE - 4), height = above.bottom + view.height + PAD;
		const copy = drawing.cloneNode(true);
		style(copy, drawing);
		for (const [name, value] of [["x", PAD], ["y", above.bottom], ["width", view.width], ["height", view.height],
			["overflow", "visible"]]) copy.setAttribute(name, value);
		return ls.svg("svg", {width: width, height: height, viewBox: "0 0 " + width + " " + height, "font-family": FONT},
			ls.svg("rect", {width: width, height: height, fill: said.backgroundColor}),
			ls.svg("text", {x: PAD, y: PAD + 14, "font-size": 15, "font-weight": 600, fill: said.color}, panel.title),
			...above.parts, copy);
	}

	function textOf(panel, room, draw) {
		const box = room.closest(".ls-panel") || room;
		let drawing = room.querySelector("svg"), made = null;
		if (draw) {
			/* Styles are those of the page: it stands there for a moment. */
			made = ls.el("div", "ls-drawing ls-unseen", drawing = draw(WIDE));
			box.append(made);
		}
		const text = new XMLSerializer().serializeToString(standalone(panel, drawing, box.querySelector(".ls-legend"), box));
		if (made) made.remove();
		return text;
	}

	function png(text) {
		return new Promise(function (resolve, reject) {
			const image = new Image();
			image.addEventListener("load", function () {
				const canvas = ls.el("canvas");
				canvas.width = image.width * SHARP;
				canvas.height = image.height * SHARP;
				canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
				canvas.toBlob((blob) => blob ? resolve(blob) : reject(new Error("too large for a picture")), "image/png");
			});
			image.addEventListener("error", () => reject(new Error("the chart cannot be drawn")));
			image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
		});
	}

	/* A panel's chart among what can be saved. draw(width), where given, makes the chart as SVG; else it stands in
	 * `room`. */
	ls.pictures = function (frame, panel, room, draw) {
		const name = (ending) => ls.fileName(panel.title, ending);
		ls.saves(frame, "SVG", () => ls.save(name("svg"), "image/svg+xml", textOf(panel, room, draw)));
		ls.saves(frame, "PNG", () => png(textOf(panel, room, draw)).then((blob) => ls.save(name("png"), "image/png", blob)));
	};
})(window.lockstep = window.lockstep || {});
