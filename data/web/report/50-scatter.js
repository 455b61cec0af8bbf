/* scatter.js: lines and points over two axes: collectives, the roofline, fronts of plans and machines. SVG; where
 * the page has uPlot, sets of lines are its (curves.js). A point is [x, y], [x, y, text] or [x, y, text, command]: a
 * click shows it. */
(function (ls) {
	"use strict";

	const LEFT = 58, RIGHT = 14, TOP = 10, BOTTOM = 38;

	function extent(series, i, log) {
		let low = Infinity, high = -Infinity;
		for (const s of series)
			for (const p of s.points)
				if (Number.isFinite(p[i]) && (!log || p[i] > 0)) { low = Math.min(low, p[i]);
					high = Math.max(high, p[i]); }
		if (low > high) return [log ? 1 : 0, log ? 10 : 1];
		if (log) return [low / 1.25, high * 1.4];
		const pad = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
		return [low >= 0 ? Math.max(0, low - pad) : low - pad, high + pad];
	}

	function scale(range, log, from, to) {
		const f = log ? Math.log10 : (v) => v, a = f(range[0]), b = f(range[1]);
		return (v) => from + (to - from) * (f(v) - a) / (b - a || 1);
	}

	/* Powers of ten, or of two for bytes; few enough to read; between them 2 and 5 where there is room. */
	ls.logTicks = function (low, high, unit, most) {
		const base = unit === "B" ? 2 : 10, first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9),
			last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
		const each = base === 2 ? Math.max(1, Math.ceil((last - first + 1) / most))
			: Math.max(1, Math.ceil((last - first + 1) / most)), list = [];
		for (let e = base === 2 ? Math.ceil(first / each) * each : first; e <= last;
			e += each) list.push(Math.pow(base, e));
		if (base === 10 && list.length < 3)
			for (let e = first - 1; e <= last; e++) for (const m of [2, 5]) if (m * Math.pow(10, e) >= low
				&& m * Math.pow(10, e) <= high) list.push(m * Math.pow(10, e));
		return list.sort((a, b) => a - b);
	};
	/* Of an axis: its name has the unit, but for those that texts carry themselves. */
	ls.axisText = (v, unit, count) => unit === "B" ? ls.bytes(v, count) : unit === "s" || unit === "%"
		? ls.quantity(v, unit, count) : ls.count(v, "", count);
	ls.axisLabel = function (axis) {
		const unit = {"B": "", "s": "", "%": "", "": ""}[axis.unit];
		return axis.label + (unit === undefined ? ", " + axis.unit : "");
	};

	function ticksOf(axis, range, most) {
		if (axis.ticks) {
			const own = [...new Set(axis.ticks)].sort((a, b) => a - b);
			if (own.length <= Math.max(most, 6)) return own;
		}
		if (axis.unit === "B" && !axis.log) {
			const unit = Math.pow(1024, Math.floor(Math.log2(Math.max(range[1], 1)) / 10));
			return ls.ticks(range[0] / unit, range[1] / unit, most).map((x) => x * unit);
		}
		return axis.log ? ls.logTicks(range[0], range[1], axis.unit, most) : ls.ticks(range[0], range[1], most);
	}

	function drawAxes(svg, panel, x, y, rx, ry, width, height) {
		const xs = ticksOf(panel.x, rx, Math.max(2, width / 90)), ys = ticksOf(panel.y, ry, 6);
		const xTexts = ls.labels(xs, (v, n) => ls.axisText(v, panel.x.unit, n)),
			yTexts = ls.labels(ys, (v, n) => ls.axisText(v, panel.y.unit, n));
		xs.forEach(function (t, i) {
			svg.append(ls.svg("line", {class: "ls-grid", x1: x(t), x2: x(t), y1: TOP, y2: height - BOTTOM}));
			svg.append(ls.svg("text", {class: "ls-axis", x: x(t), y: height - BOTTOM + 15, "text-anchor": "middle"},
				xTexts[i]));
		});
		ys.forEach(function (t, i) {
			svg.append(ls.svg("line", {class: "ls-grid", x1: LEFT, x2: width - RIGHT, y1: y(t), y2: y(t)}));
			svg.append(ls.svg("text", {class: "ls-axis", x: LEFT - 6, y: y(t) + 4, "text-anchor": "end"}, yTexts[i]));
		});
		svg.append(ls.svg("text", {class: "ls-axis ls-axis-name", x: (LEFT + width - RIGHT) / 2, y: height - 4,
			"text-anchor": "middle"}, ls.axisLabel(panel.x)));
		svg.append(ls.svg("text", {class: "ls-axis ls-axis-name", x: 0, y: 0,
			transform: "translate(11," + (TOP + height - BOTTOM) / 2 + ") rotate(-90)", "text-anchor": "middle"},
			ls.axisLabel(panel.y)));
	}

	function draw(panel, width, pick) {
		const height = Math.round(Math.min(360, Math.max(240, width * 0.6)));
		const rx = extent(panel.series, 0, panel.x.log), ry = extent(panel.series, 1, panel.y.log);
		const x = scale(rx, panel.x.log, LEFT, width - RIGHT), y = scale(ry, panel.y.log, height - BOTTOM, TOP);
		const svg = ls.svg("svg", {viewBox: "0 0 " + width + " " + height, width: width, height: height, role: "img",
			"aria-label": panel.title});
		drawAxes(svg, panel, x, y, rx, ry, width, height);
		const good = (p) => Number.isFinite(x(p[0])) && Number.isFinite(y(p[1]));
		panel.series.forEach(function (s, i) {
			const name = "ls-s-" + i % 8 + " ls-k-" + ls.key(s.key) + " ls-d-" + (s.dash || 0),
				points = s.points.filter(good);
			if (s.style === "line") {
				svg.append(ls.svg("polyline", {class: "ls-curve " + name,
					points: points.map((p) => x(p[0]).toFixed(1) + "," + y(p[1]).toFixed(1)).join(" ")}));
				return;
			}
			for (const p of points) {
				const mark = ls.svg("circle", {class: "ls-point " + name + (p[3] ? " ls-pick" : ""), cx: x(p[0]),
					cy: y(p[1]), r: s.key === "front" || s.key === "best" ? 6 : 4.5});
				ls.tells(mark, () => [p[2] || s.name, ls.axisLabel(panel.x) + ": " + ls.axisText(p[0], panel.x.unit),
					ls.axisLabel(panel.y) + ": " + ls.axisText(p[1], panel.y.unit), p[3] && "click for the command"]);
				if (p[3]) {
					mark.setAttribute("tabindex", "0");
					mark.setAttribute("role", "button");
					mark.addEventListener("click", () => pick(p));
					mark.addEventListener("keydown", (event) => { if (event.key === "Enter"
						|| event.key === " ") { event.preventDefault(); pick(p); } });
				}
				svg.append(mark);
			}
		});
		return svg;
	}

	/* A piece of the line, or a point. */
	function swatch(s, i) {
		const name = "ls-s-" + i % 8 + " ls-k-" + ls.key(s.key) + " ls-d-" + (s.dash || 0);
		if (s.style !== "line") return ls.el("i", "ls-swatch ls-dot " + name);
		return ls.svg("svg", {width: 22, height: 8, class: "ls-piece"},
			ls.svg("line", {class: "ls-curve " + name, x1: 0, x2: 22, y1: 4, y2: 4}));
	}

	/* Curves and points have one name in a legend each. */
	function legend(panel) {
		const list = ls.el("ul", "ls-legend");
		panel.series.forEach(function (s, i) {
			/* points on a line have its colour */
			const marks = s.style !== "line" && panel.role === "sweep"
				&& panel.series.some((o) => o.style === "line" && o.key === s.key);
			if (s.points.length && !marks) list.append(ls.el("li", "", swatch(s, i), s.name));
		});
		return list;
	}

	ls.panels.scatter = function (panel, box, frame) {
		const room = ls.el("div", "ls-drawing"), chosen = ls.el("div", "ls-chosen");
		const pick = function (p) {
			const button = ls.button("Copy", "copy the command", () => ls.copy(p[3], button));
			chosen.replaceChildren(ls.el("div", "ls-chosen-head", ls.el("span", "", p[2] || ""), button),
				ls.el("pre", "ls-command", p[3]));
		};
		chosen.setAttribute("aria-live", "polite");
		panel.series = panel.series.filter((s) => s.points.length);
		/* lines of one colour differ in their dashes */
		panel.series.forEach((s, i) => { s.dash = s.style === "line"
			? panel.series.slice(0, i).filter((o) => o.style === "line" && o.key === s.key).length % 4 : 0; });
		box.append(legend(panel), room);
		/* what can be clicked is SVG */
		const curves = ls.curves && panel.series.some((s) => s.style === "line") && !panel.series.some((s) => s.points.some((p) => p[3]));
		if (!(curves && ls.curves(panel, room))) ls.fit(room,
			(width) => draw(panel, width, pick));
		box.append(chosen);
		const rows = panel.series.flatMap((s) => s.points.map((p) => [s.name, [p[0], ls.axisText(p[0], panel.x.unit)],
			[p[1], ls.axisText(p[1], panel.y.unit)], p[2] || ""]));
		ls.tableBehind([{key: "series", title: "series"}, {key: "x", title: ls.axisLabel(panel.x), right: true},
			{key: "y", title: ls.axisLabel(panel.y), right: true}, {key: "text", title: "what"}], rows, box, frame,
			panel, (width) => draw(panel, width, () => {}));
	};
})(window.lockstep = window.lockstep || {});
