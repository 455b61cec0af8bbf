/* curves.js: panels of lines by uPlot, where the page has it: zoom by dragging, all of it again by a double click.
 * Without it ls.curves is not there, and scatter.js draws. */
(function (ls) {
	"use strict";

	if (typeof uPlot !== "function") return;

	const dashes = [[], [7, 3], [2, 3], [9, 3, 2, 3]];

	/* The colour that the style sheet has for a series; of texts and lines of axes. */
	function colours(room, panel) {
		const probe = ls.el("i", "");
		room.append(probe);
		const read = function (name, property) {
			probe.className = name;
			return getComputedStyle(probe).getPropertyValue(property).trim();
		};
		const found = {soft: read("", "--soft"), grid: read("", "--grid"), card: read("", "--card"),
			series: panel.series.map((s, i) => read("ls-swatch ls-s-" + i % 8 + " ls-k-" + ls.key(s.key),
				"background-color"))};
		probe.remove();
		return found;
	}

	/* All x in order, and for each series its y there, or null. A second point at the same x stands beside it. */
	function columns(panel) {
		const all = new Set(), own = panel.series.map(function (s) {
			const at = new Map();
			for (const p of s.points) {
				let x = p[0];
				while (at.has(x)) x *= 1 + 1e-7;
				at.set(x, p);
				all.add(x);
			}
			return at;
		});
		const xs = Float64Array.from(all).sort();
		return {own: own, xs: xs, data: [Array.from(xs)].concat(own.map((at) => Array.from(xs,
			(x) => at.has(x) ? at.get(x)[1] : null)))};
	}

	function limits(values, log) {
		const good = values.filter((v) => Number.isFinite(v) && (!log || v > 0)), low = Math.min(...good),
			high = Math.max(...good);
		if (log) return [low / 1.3, high * 1.5];
		const pad = (high - low) * 0.08 || 1;
		return [low >= 0 ? Math.max(0, low - pad) : low - pad, high + pad];
	}

	function scaleOf(axis, values) {
		const whole = limits(values, axis.log), low = Math.min(...values), high = Math.max(...values);
		return {time: false, distr: axis.log ? 3 : 1, log: axis.unit === "B" ? 2 : 10,
			range: (u, from, to) => from === null || from === undefined || (from <= low && to >= high) ? whole
				: [from, to]};
	}

	function axisOf(axis, colour, size, room) {
		return {label: ls.axisLabel(axis), labelSize: 18, labelFont: "11.5px system-ui, sans-serif",
			font: "11.5px system-ui, sans-serif", stroke: colour.soft, size: size,
			grid: {stroke: colour.grid, width: 1}, ticks: {show: false}, filter: (u, splits) => splits,
			splits: (u, i, from, to) => axis.log ? ls.logTicks(from, to, axis.unit, room())
				: ls.ticks(from, to, room()),
			values: (u, splits) => ls.labels(splits, (v, n) => ls.axisText(v, axis.unit, n))};
	}

	/* The point nearest to the pointer, within some pixels. */
	function nearest(u, panel, held) {
		let best = null, distance = 26;
		held.own.forEach(function (at, i) {
			for (const [x, p] of at) {
				const d = Math.hypot(u.valToPos(x, "x") - u.cursor.left,
					u.valToPos(p[1], "y") - u.cursor.top) - (panel.series[i].style === "line" ? 0 : 6);
				if (d < distance) { distance = d; best = {series: panel.series[i], point: p}; }
			}
		});
		return best;
	}

	function tell(u, panel, held) {
		if (u.cursor.left < 0) return ls.untip();
		const found = nearest(u, panel, held), box = u.over.getBoundingClientRect();
		if (!found) return ls.untip();
		const p = found.point;
		ls.showTip({clientX: box.left + u.cursor.left, clientY: box.top + u.cursor.top}, [p[2] || found.series.name,
			ls.axisLabel(panel.x) + ": " + ls.axisText(p[0], panel.x.unit),
				ls.axisLabel(panel.y) + ": " + ls.axisText(p[1], panel.y.unit)]);
	}

	function make(panel, room, width) {
		const colour = colours(room, panel), held = columns(panel),
			ys = panel.series.flatMap((s) => s.points.map((p) => p[1]));
		const height = Math.round(Math.min(360, Math.max(240, width * 0.6)));
		const series = panel.series.map(function (s, i) {
			const line = s.style === "line";
			return {label: s.name, stroke: colour.series[i], width: line ? 2 : 0, dash: dashes[s.dash || 0],
				spanGaps: true,
				paths: line ? undefined : () => null, points: {show: !line, size: 9, width: 1, fill: colour.series[i],
					stroke: colour.card}};
		});
		return new uPlot({width: width, height: height, legend: {show: false}, padding: [8, 12, 0, 0],
			cursor: {y: false, points: {show: false}, drag: {x: true, y: false}},
			scales: {x: scaleOf(panel.x, Array.from(held.xs)), y: scaleOf(panel.y, ys)},
			axes: [axisOf(panel.x, colour, 28, () => Math.max(2, width / 90)), axisOf(panel.y, colour, 44, () => 6)],
			series: [{}].concat(series), hooks: {setCursor: [(u) => tell(u, panel, held)]}}, held.data, room);
	}

	ls.curves = function (panel, room) {
		let plot = null, last = 0;
		const again = function (width) {
			if (width <= 0 || width === last) return;
			last = width;
			if (plot) plot.destroy();
			plot = make(panel, room, width);
		};
		room.classList.add("ls-curves");
		room.addEventListener("pointerleave", ls.untip);
		ls.watch(room, again);
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () {
			last = 0;
			if (room.isConnected) again(room.clientWidth);
		});
		return true;
	};
})(window.lockstep = window.lockstep || {});
