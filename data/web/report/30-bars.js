/* bars.js: rows of stacked bars (memory by stage, time by stage or rank), the waterfall, the tornado, the range. All
 * SVG. */
(function (ls) {
	"use strict";

	const ROW = 22, GAP = 6;

	/* Where texts of an axis stand. */
	function labelWidth(names, width) {
		const longest = names.reduce((most, name) => Math.max(most, name.length), 0);
		return Math.min(Math.max(60, longest * 7.1 + 14), width * 0.34);
	}

	/* The begin of a text that has so many pixels. */
	function cut(text, pixels) {
		const most = Math.max(3, Math.floor(pixels / 6.9));
		return text.length <= most ? text : text.slice(0, most - 1) + "\u2026";
	}
	ls.cut = cut;

	/* `taken`: where another text stands already; texts keep away from it. */
	function axis(g, x, ticks, top, bottom, format, taken) {
		const texts = ls.labels(ticks, format);
		let last = -Infinity;
		ticks.forEach(function (t, i) {
			g.append(ls.svg("line", {class: "ls-grid", x1: x(t), x2: x(t), y1: top, y2: bottom}));
			if (x(t) - last < 58 || (taken && x(t) > taken[0] - 30 && x(t) < taken[1] + 30)) return;
			last = x(t);
			g.append(ls.svg("text", {class: "ls-axis", x: x(t), y: bottom + 16, "text-anchor": "middle"}, texts[i]));
		});
	}

	function frame(width, height, name) {
		return ls.svg("svg", {viewBox: "0 0 " + width + " " + height, width: width, height: height, role: "img",
			"aria-label": name});
	}

	/* ---- rows of stacked bars ---- */

	/* What a part of a row says of itself. */
	function partLines(panel, row, k, format) {
		const part = panel.parts[k], all = row.values.reduce((a, b) => a + b, 0);
		return [part.label + ": " + format(row.values[k]), row.formulas && row.formulas[k],
			row.name + ", " + ls.percent(row.values[k] / all) + " of " + format(all),
			row.moment && "peak: " + row.moment];
	}

	function drawRows(panel, rows, width, format) {
		const names = rows.map((r) => r.name), marks = rows.some((r) => r.mark || r.note), right = marks ? 108 : 64;
		/* Names that would be cut stand above their bars where there is little room. */
		const above = width < 560 && names.some((name) => cut(name, labelWidth(names, width) - 10) !== name),
			left = above ? 0 : labelWidth(names, width), lead = above ? 17 : 0, row = ROW + GAP + lead;
		const sums = rows.map((r) => r.values.reduce((a, b) => a + Math.max(0, b), 0));
		const most = Math.max(panel.limit || 0, ...sums) * 1.02 || 1;
		const bottom = rows.length * row + 6, svg = frame(width, bottom + 26, panel.title);
		const x = (v) => left + (width - left - right) * v / most;
		const bytes = panel.unit === "bytes" || panel.limit, text = panel.limit ? "device " + format(panel.limit) : "";
		axis(svg, x, bytes ? ls.byteTicks(most, width / 110) : ls.ticks(0, most, width / 110), 0, bottom, format,
			panel.limit && [x(panel.limit) - text.length * 6.4, x(panel.limit)]);
		rows.forEach(function (r, i) {
			const y = i * row + GAP + lead;
			svg.append(ls.svg("text", {class: "ls-label" + (r.mark ? " ls-marked" : ""), x: above ? 0 : left - 8,
				y: above ? y - 5 : y + ROW / 2 + 4, "text-anchor": above ? "start" : "end"},
				cut(r.name, above ? width : left - 10)));
			let sum = 0;
			r.values.forEach(function (value, k) {
				if (!(value > 0)) return;
				const rect = ls.svg("rect", {class: "ls-part ls-k-" + ls.key(panel.parts[k].key), x: x(sum), y: y,
					width: Math.max(0.5, x(sum + value) - x(sum)), height: ROW});
				sum += value;
				svg.append(ls.tells(rect, () => partLines(panel, r, k, format)));
			});
			const over = panel.limit && sum > panel.limit;
			svg.append(ls.svg("text", {class: "ls-axis" + (over ? " ls-bad" : ""), x: x(sum) + 6, y: y + ROW / 2 + 4},
				[format(sum), r.mark, r.note].filter(Boolean).join("  ")));
		});
		if (panel.limit) {
			svg.append(ls.svg("line", {class: "ls-limit", x1: x(panel.limit), x2: x(panel.limit), y1: 0, y2: bottom}));
			svg.append(ls.svg("text", {class: "ls-axis ls-limit-text", x: x(panel.limit) - 4, y: bottom + 16,
				"text-anchor": "end"}, text));
		}
		return svg;
	}

	const FEW = 24;

	function rowsPanel(panel, box, frame, format) {
		const used = panel.parts.map((part, k) => panel.rows.some((r) => r.values[k] > 0));
		box.append(ls.legend(panel.parts.filter((part, k) => used[k])));
		const room = ls.el("div", "ls-drawing");
		let rows = panel.rows.length > FEW ? panel.rows.slice(0, FEW) : panel.rows;
		const again = ls.fit(room, (width) => drawRows(panel, rows, width, format));
		box.append(room);
		if (panel.rows.length > FEW) {
			const all = ls.button("all " + panel.rows.length + " rows", "show every row", function () {
				rows = rows.length === FEW ? panel.rows : panel.rows.slice(0, FEW);
				all.textContent = rows.length === FEW ? "all " + panel.rows.length + " rows" : "fewer rows";
				again();
			});
			box.append(all);
		}
		if (panel.left_out) box.append(ls.el("p", "ls-note",
			panel.left_out + " more rows were left out of this report"));
		const columns = [{key: "name", title: "row"}].concat(panel.parts.map((p) => ({key: p.key, title: p.label,
			right: true})));
		ls.tableBehind(columns, panel.rows.map((r) => [r.name].concat(r.values.map((v) => [v, v ? format(v) : ""]))),
			box, frame, panel);
	}

	/* The numbers of the drawing in a box as a table, folded away; its rows are made when there is time, or when it is
	 * opened. draw(width), if given, makes the drawing as SVG. */
	ls.tableBehind = function (columns, rows, box, frame, panel, draw) {
		const made = ls.table(columns, rows, true),
			more = ls.el("details", "ls-numbers", ls.el("summary", "", "numbers"));
		/* The filter is of the numbers alone, and stands with them. */
		if (made.filter.length) more.append(ls.el("div", "ls-tools", ...made.filter));
		more.append(made.table);
		more.addEventListener("toggle", made.fill);
		ls.later(() => { if (more.isConnected) made.fill(); });
		frame.tools.append(...made.buttons);
		ls.tableSaves(frame, made, panel.title);
		ls.pictures(frame, panel, box.querySelector(".ls-drawing"), draw);
		box.append(more);
	};

	ls.panels.memory = (panel, box, frame) => rowsPanel(panel, box, frame, ls.bytes);
	ls.panels.bars = (panel, box, frame) => rowsPanel(panel, box, frame, (v, n) => ls.quantity(v, panel.unit, n));

	/* ---- waterfall ---- */

	function drawWaterfall(panel, width) {
		const steps = panel.steps, narrow = width < 560, most = Math.max(...steps.map((s) => s.end)) * 1.02 || 1,
			unit = panel.unit || "s";
		const left = narrow ? 0 : labelWidth(steps.map((s) => s.label), width), right = 112,
			row = narrow ? 43 : ROW + GAP;
		const bottom = steps.length * row + 4, svg = frame(width, bottom + 24, panel.title);
		const x = (v) => left + (width - left - right) * v / most, total = steps[steps.length - 1].value;
		axis(svg, x, ls.ticks(0, most, width / 120), 0, bottom, (v, n) => ls.quantity(v, unit, n));
		steps.forEach(function (s, i) {
			const y = i * row + (narrow ? 19 : GAP / 2 + 1), from = Math.min(s.begin, s.end),
				to = Math.max(s.begin, s.end);
			svg.append(ls.svg("text", {class: "ls-label" + (s.total ? " ls-strong" : ""), x: narrow ? 0 : left - 8,
				y: narrow ? y - 4 : y + ROW / 2 + 4, "text-anchor": narrow ? "start" : "end"},
				cut(s.label, narrow ? width : left - 10)));
			if (i + 1 < steps.length) svg.append(ls.svg("line",
				{class: "ls-link", x1: x(s.end), x2: x(s.end), y1: y + ROW, y2: y + row}));
			const rect = ls.svg("rect", {class: "ls-part ls-k-" + ls.key(s.key), x: x(from), y: y,
				width: Math.max(1.5, x(to) - x(from)), height: ROW, rx: 2});
			svg.append(ls.tells(rect, () => [s.label + ": " + ls.quantity(s.value, unit),
				ls.percent(s.value / total) + " of the step", s.note]));
			svg.append(ls.svg("text", {class: "ls-axis" + (s.total ? " ls-strong" : ""), x: x(to) + 6,
				y: y + ROW / 2 + 4}, (s.total ? "" : s.value < 0 ? "\u2212" : "+")
				+ ls.quantity(Math.abs(s.value), unit) + " \u00b7 " + ls.percent(s.value / total)));
		});
		return svg;
	}

	ls.panels.waterfall = function (panel, box, frame) {
		let at = 0;
		for (const s of panel.steps) {
			s.begin = s.total ? 0 : at;
			s.end = at = s.total ? s.value : at + s.value;
		}
		const room = ls.el("div", "ls-drawing");
		ls.fit(room, (width) => drawWaterfall(panel, width));
		box.append(room);
		const unit = panel.unit || "s";
		ls.tableBehind([{key: "step", title: "from ideal to real"}, {key: "value_" + unit, title: "time", right: true}],
			panel.steps.map((s) => [s.label, [s.value, ls.quantity(s.value, unit)]]), box, frame, panel);
	};

	/* ---- tornado ---- */

	/* What low and high of a row are. */
	const swings = (panel) => panel.labels || ["10 % lower", "10 % higher"];

	function drawTornado(panel, rows, width) {
		const labels = swings(panel);
		const narrow = width < 420, left = narrow ? 0 : labelWidth(rows.map((r) => r.label), width), right = 12,
			row = narrow ? 42 : 34, unit = panel.unit || "s";
		const ends = rows.flatMap((r) => [r.low, r.high, panel.base]).filter((v) => v !== null),
			least = Math.min(...ends), most = Math.max(...ends);
		const pad = (most - least) * 0.24 || panel.base * 0.01, bottom = rows.length * row + 4,
			svg = frame(width, bottom + 24, panel.title);
		const x = (v) => left + (width - left - right) * (v - least + pad) / (most - least + 2 * pad);
		axis(svg, x, ls.ticks(least - pad, most + pad, width / 130), 0, bottom, (v, n) => ls.quantity(v, unit, n));
		const share = function (v) {
			const off = v / panel.base - 1, text = ls.percent(Math.abs(off));
			return (text === ls.percent(0) ? "" : off > 0 ? "+" : "\u2212") + text;
		};
		rows.forEach(function (r, i) {
			const y = i * row + (narrow ? 18 : 6);
			svg.append(ls.svg("text", {class: "ls-label", x: narrow ? 0 : left - 8, y: narrow ? y - 4 : y + 15,
				"text-anchor": narrow ? "start" : "end"}, cut(r.label, narrow ? width : left - 10)));
			/* Both on one side of the base: each has half of the row. */
			const same = r.low !== null && r.high !== null && (r.low - panel.base) * (r.high - panel.base) > 0,
				high = same ? ROW / 2 + 1 : ROW;
			["low", "high"].forEach(function (end, k) {
				if (r[end] === null || r[end] === undefined) return;
				const from = Math.min(r[end], panel.base), to = Math.max(r[end], panel.base), out = r[end] > panel.base,
					top = y + (same ? k * (high + 2) - 2 : 0);
				const rect = ls.svg("rect", {class: "ls-part ls-k-" + (out ? "worse" : "better"), x: x(from), y: top,
					width: Math.max(1, x(to) - x(from)), height: high});
				svg.append(ls.tells(rect, () => [r.label + (labels[k] ? ", " + labels[k] : ""),
					ls.quantity(r[end], unit) + ", " + share(r[end])]));
				svg.append(ls.svg("text", {class: "ls-axis", x: out ? x(to) + 5 : x(from) - 5, y: top + high / 2 + 4,
					"text-anchor": out ? "start" : "end"}, share(r[end])));
			});
		});
		svg.append(ls.svg("line", {class: "ls-base", x1: x(panel.base), x2: x(panel.base), y1: 0, y2: bottom}));
		return svg;
	}

	ls.panels.tornado = function (panel, box, frame) {
		const span = (r) => Math.max(...[r.low, r.high].filter((v) => v !== null).map((v) => Math.abs(v - panel.base)),
			0);
		const rows = panel.rows.filter((r) => r.low !== null || r.high !== null).sort((a, b) => span(b) - span(a)),
			unit = panel.unit || "s";
		if (!rows.length) return;
		const room = ls.el("div", "ls-drawing");
		ls.fit(room, (width) => drawTornado(panel, rows, width));
		box.append(room);
		const shown = ["low", "high"].filter((end) => rows.some((r) => r[end] !== null)),
			cell = (v) => v === null ? null : [v, ls.quantity(v, unit)];
		ls.tableBehind([{key: "what", title: "what"}].concat(shown.map((end) => ({key: end + "_" + unit,
			title: swings(panel)[end === "low" ? 0 : 1] || "step", right: true}))),
			rows.map((r) => [r.label].concat(shown.map((end) => cell(r[end])))), box, frame, panel);
	};

	/* ---- range ---- */

	function drawRange(panel, rows, width) {
		const narrow = width < 420, left = narrow ? 0 : labelWidth(rows.map((r) => r.name), width), right = 62,
			row = narrow ? 34 : 24;
		const least = Math.min(...rows.map((r) => r.low), 0.98), most = Math.max(...rows.map((r) => r.high), 1.02),
			pad = (most - least) * 0.04;
		const bottom = rows.length * row + 4, svg = frame(width, bottom + 24, panel.title);
		const x = (v) => left + (width - left - right) * (v - least + pad) / (most - least + 2 * pad);
		axis(svg, x, ls.ticks(least, most, width / 110), 0, bottom, (v) => v.toFixed(2));
		svg.append(ls.svg("line", {class: "ls-base", x1: x(1), x2: x(1), y1: 0, y2: bottom}));
		rows.forEach(function (r, i) {
			const y = i * row + (narrow ? 22 : 12);
			svg.append(ls.svg("text", {class: "ls-label" + (r.own ? " ls-strong" : ""), x: narrow ? 0 : left - 8,
				y: narrow ? y - 8 : y + 4, "text-anchor": narrow ? "start" : "end"},
				cut(r.name, narrow ? width : left - 10)));
			const line = ls.svg("rect", {class: "ls-part ls-k-" + (r.own ? "own" : "other"), x: x(r.low), y: y - 4,
				width: x(r.high) - x(r.low), height: 8, rx: 4});
			svg.append(ls.tells(line, () => [r.name, "measured / predicted of 8 in 10 runs: " + r.low.toFixed(3)
				+ " \u2013 " + r.high.toFixed(3), r.runs + " runs that the fit had not seen"]));
			svg.append(ls.svg("text", {class: "ls-axis", x: width, y: y + 4, "text-anchor": "end"}, r.runs + " runs"));
		});
		return svg;
	}

	ls.panels.range = function (panel, box, frame) {
		const q = (v) => ls.quantity(v, panel.unit), line = ls.el("p", "ls-sure");
		line.append(ls.el("strong", "", q(panel.value)));
		if (panel.low > 0) line.append(", 8 of 10 such runs lie between " + q(panel.low) + " and " + q(panel.high));
		if (panel.measured > 0) line.append("; measured " + q(panel.measured));
		box.append(line);
		const own = (panel.classes || []).filter((r) => r.own),
			others = (panel.classes || []).filter((r) => !r.own).sort((a, b) => b.runs - a.runs).slice(0, 7);
		const rows = own.concat(others);
		if (!rows.length) return;
		box.append(ls.el("p", "ls-note",
			"Measured over predicted step times by class of runs; this prediction's class first."));
		const room = ls.el("div", "ls-drawing");
		ls.fit(room, (width) => drawRange(panel, rows, width));
		box.append(room);
		ls.tableBehind([{key: "class", title: "class"}, {key: "runs", title: "runs", right: true},
			{key: "low", title: "low", right: true}, {key: "high", title: "high", right: true}],
			panel.classes.map((r) => [r.name, r.runs, r.low, r.high]), box, frame, panel);
	};
})(window.lockstep = window.lockstep || {});
