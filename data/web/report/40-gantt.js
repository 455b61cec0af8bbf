/* gantt.js: lanes of spans over time. All spans of a kind on a lane are one path, so that thousands cost little;
 * what the pointer is at is searched. Drag to zoom, Ctrl and wheel too, double click for all of it; a click on a
 * name folds its row. */
(function (ls) {
	"use strict";

	const HIGH = 18, MINOR = 9, THIN = 5, GAP = 3, AXIS = 22, MOST_TEXTS = 500;
	let hatches = 0;

	/* The last span of the lane that starts at or before a tick; -1: none. */
	function at(lane, tick) {
		let low = 0, high = lane.start.length - 1, found = -1;
		while (low <= high) {
			const mid = (low + high) >> 1;
			if (lane.start[mid] <= tick) { found = mid; low = mid + 1; } else high = mid - 1;
		}
		return found;
	}

	/* Starts from the gaps before spans; kinds from a text of digits. */
	function unpack(lane) {
		if (lane.start) return;
		let at = 0;
		lane.kinds = Array.from(lane.kinds, Number);
		lane.start = lane.gap.map(function (gap, i) {
			at += gap + lane.length[i];
			return at - lane.length[i];
		});
	}

	function Gantt(panel, box, frame) {
		const self = this;
		panel.lanes.forEach(unpack);
		this.panel = panel;
		this.ticks = panel.ticks;
		this.from = 0;
		this.to = panel.ticks;
		this.thin = new Set();
		this.minor = !panel.lanes.some((l) => l.minor) || panel.lanes.length <= 8;
		this.hatch = "ls-hatch-" + (++hatches);
		this.room = ls.el("div", "ls-drawing ls-rows");
		box.append(ls.legend(panel.kinds.filter((k, i) => panel.lanes.some((l) => l.kinds.includes(i)))), this.room);
		this.again = ls.fit(this.room, (width) => self.draw(width));
		this.buttons(frame);
		ls.pictures(frame, panel, this.room);
		const left = panel.lanes.filter((l) => l.middle).length;
		if (left) box.append(ls.el("p", "ls-note",
			"Long rows are shortened: on " + left + " of them what lies between the first and the last "
			+ panel.lanes[0].start.length / 2 + " passes is one hatched span; --trace FILE writes every one."));
		box.append(ls.el("p", "ls-note ls-hint",
			"Drag over the rows to zoom, double click for the whole step, click a name to fold its row."));
	}

	Gantt.prototype.buttons = function (frame) {
		const self = this, button = (label, title, act) => frame.tools.append(ls.button(label, title, act));
		button("+", "zoom in", () => self.zoom(0.5));
		button("\u2212", "zoom out", () => self.zoom(2));
		button("\u2039", "earlier", () => self.pan(-0.5));
		button("\u203a", "later", () => self.pan(0.5));
		button("whole step", "show all of it", () => self.show(0, self.ticks));
		button("fold rows", "make all rows thin, or high again", function () {
			const lanes = self.panel.lanes;
			self.thin = new Set(self.thin.size ? [] : lanes.map((l, i) => i));
			self.again();
		});
		if (this.panel.lanes.some((l) => l.minor)) button("communication rows", "show or hide them", function () {
			self.minor = !self.minor;
			self.again();
		});
	};

	Gantt.prototype.show = function (from, to) {
		const least = this.ticks / 5000, span = Math.min(this.ticks, Math.max(least, to - from));
		this.from = Math.min(Math.max(0, from), this.ticks - span);
		this.to = this.from + span;
		this.again();
	};
	Gantt.prototype.zoom = function (by, around) {
		const span = (this.to - this.from) * by, middle = around === undefined ? (this.from + this.to) / 2 : around;
		const share = (middle - this.from) / (this.to - this.from);
		this.show(middle - share * span, middle + (1 - share) * span);
	};
	Gantt.prototype.pan = function (by) {
		const move = (this.to - this.from) * by;
		this.show(this.from + move, this.to + move);
	};

	/* Rectangles of the visible spans by kind; neighbours closer than a third of a pixel become one. */
	Gantt.prototype.paths = function (lane, y, height) {
		const parts = this.panel.kinds.map(() => []), ends = this.panel.kinds.map(() => -1),
			begins = this.panel.kinds.map(() => -1);
		const close = (k) => { if (ends[k] >= 0) parts[k].push("M" + begins[k].toFixed(2) + " " + y + "H"
			+ ends[k].toFixed(2) + "V" + (y + height) + "H" + begins[k].toFixed(2) + "Z"); };
		for (let i = Math.max(0, at(lane, this.from)); i < lane.start.length && lane.start[i] < this.to; i++) {
			const k = lane.kinds[i], a = Math.max(this.x(lane.start[i]), this.left),
				b = Math.min(this.x(lane.start[i] + lane.length[i]), this.right);
			if (b < this.left) continue;
			const wide = Math.max(b, a + 0.4);
			if (ends[k] >= 0 && a - ends[k] < 0.3 && wide - begins[k] < 2) { ends[k] = wide; continue; }
			close(k);
			begins[k] = a;
			ends[k] = wide - (b - a > 4 ? 0.7 : 0);
		}
		this.panel.kinds.forEach((kind, k) => close(k));
		return parts;
	};

	/* Micro-batches written on spans that have room for them. */
	Gantt.prototype.numbers = function (lane, y, height, svg) {
		if (!lane.microbatch || height < HIGH) return;
		for (let i = Math.max(0, at(lane, this.from));
			i < lane.start.length && lane.start[i] < this.to && this.texts < MOST_TEXTS; i++) {
			const a = Math.max(this.x(lane.start[i]), this.left),
				b = Math.min(this.x(lane.start[i] + lane.length[i]), this.right), text = String(lane.microbatch[i]);
			if (lane.microbatch[i] < 0 || b - a < text.length * 6.5 + 6) continue;
			this.texts++;
			svg.append(ls.svg("text", {class: "ls-on", x: (a + b) / 2, y: y + height / 2 + 3.5,
				"text-anchor": "middle"}, text));
		}
	};

	Gantt.prototype.drawMiddle = function (lane, y, height, svg) {
		const m = lane.middle;
		if (!m) return;
		const a = Math.max(this.x(m.start), this.left), b = Math.min(this.x(m.start + m.length), this.right);
		if (b <= a) return;
		svg.append(ls.svg("rect", {x: a, y: y, width: b - a, height: height, fill: "url(#" + this.hatch + ")",
			class: "ls-middle"}));
		const text = ls.whole(m.spans) + " passes, " + Math.round(m.busy * 100) + " % busy";
		if (height >= HIGH && b - a > text.length * 6.5) svg.append(ls.svg("text",
			{class: "ls-axis ls-middle-text", x: (a + b) / 2, y: y + height / 2 + 4, "text-anchor": "middle"}, text));
	};

	Gantt.prototype.draw = function (width) {
		const self = this, lanes = this.panel.lanes,
			longest = Math.max(...lanes.filter((l) => this.minor || !l.minor).map((l) => l.name.length));
		this.left = Math.min(longest * 6.4 + 12, width * 0.3);
		this.right = width - 8;
		this.x = (tick) => self.left + (self.right - self.left) * (tick - self.from) / (self.to - self.from);
		this.texts = 0;
		this.rows = [];
		let y = 4;
		lanes.forEach(function (lane, i) {
			if (lane.minor && !self.minor) return;
			const height = self.thin.has(i) ? THIN : lane.minor ? MINOR : HIGH;
			self.rows.push({lane: lane, index: i, y: y, height: height});
			y += height + GAP;
		});
		const svg = ls.svg("svg", {viewBox: "0 0 " + width + " " + (y + AXIS), width: width, height: y + AXIS,
			role: "img", "aria-label": this.panel.title});
		svg.append(ls.svg("defs", {}, ls.svg("pattern",
			{id: this.hatch, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)"},
			ls.svg("rect", {width: 7, height: 7, class: "ls-hatch-back"}),
				ls.svg("rect", {width: 2.4, height: 7, class: "ls-hatch-line"}))));
		this.drawAxis(svg, y, width);
		for (const row of this.rows) this.drawRow(svg, row);
		this.pointer(svg, y);
		return svg;
	};

	Gantt.prototype.drawAxis = function (svg, bottom, width) {
		const tick = this.panel.end / this.ticks;
		const ticks = ls.ticks(this.from * tick, this.to * tick, width / 120), texts = ls.labels(ticks, ls.seconds),
			self = this;
		ticks.forEach(function (t, i) {
			const x = self.x(t / tick);
			svg.append(ls.svg("line", {class: "ls-grid", x1: x, x2: x, y1: 0, y2: bottom}));
			if (x < self.right - 20) svg.append(ls.svg("text",
				{class: "ls-axis", x: x, y: bottom + 15, "text-anchor": "middle"}, texts[i]));
		});
	};

	Gantt.prototype.drawRow = function (svg, row) {
		const self = this;
		svg.append(ls.svg("rect", {class: "ls-lane", x: this.left, y: row.y, width: this.right - this.left,
			height: row.height}));
		if (row.height > THIN || row.index === 0) {
			const name = ls.svg("text", {class: "ls-label ls-fold" + (row.lane.mark ? " ls-marked" : ""),
				x: this.left - 8, y: row.y + row.height / 2 + 4, "text-anchor": "end"},
				ls.cut(row.lane.name, this.left - 8));
			name.addEventListener("click", function () {
				if (!self.thin.delete(row.index)) self.thin.add(row.index);
				self.again();
			});
			svg.append(name);
		}
		this.paths(row.lane, row.y, row.height).forEach(function (parts, k) {
			if (parts.length) svg.append(ls.svg("path",
				{class: "ls-span ls-k-" + ls.key(self.panel.kinds[k].key), d: parts.join("")}));
		});
		this.drawMiddle(row.lane, row.y, row.height, svg);
		this.numbers(row.lane, row.y, row.height, svg);
	};

	/* What a row shows at a tick, in words. */
	Gantt.prototype.lines = function (row, tick) {
		const lane = row.lane, s = this.panel.end / this.ticks, i = at(lane, tick), m = lane.middle;
		if (i >= 0 && tick <= lane.start[i] + lane.length[i]) {
			const parts = [lane.name + ": " + this.panel.kinds[lane.kinds[i]].label];
			if (lane.microbatch && lane.microbatch[i] >= 0) parts.push("micro-batch " + lane.microbatch[i]
				+ (lane.chunk ? ", chunk " + lane.chunk[i] : ""));
			if (lane.names) parts.push(lane.names[i]);
			parts.push(ls.seconds(lane.length[i] * s) + " from " + ls.seconds(lane.start[i] * s));
			return parts;
		}
		if (m && tick >= m.start && tick <= m.start + m.length) return [lane.name + ": " + ls.whole(m.spans)
			+ " passes", Math.round(m.busy * 100) + " % busy, " + ls.seconds(m.length * s) + " from "
			+ ls.seconds(m.start * s)];
		return [lane.name + ": nothing", ls.seconds(tick * s)];
	};

	Gantt.prototype.pointer = function (svg, bottom) {
		const self = this, brush = ls.svg("rect", {class: "ls-brush", y: 0, height: bottom, x: 0, width: 0});
		let begun = null;
		const tickAt = function (event) {
			const box = svg.getBoundingClientRect();
			const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
			return self.from + (x - self.left) / (self.right - self.left) * (self.to - self.from);
		};
		const rowAt = function (event) {
			const y = event.clientY - svg.getBoundingClientRect().top;
			return self.rows.find((r) => y >= r.y && y <= r.y + r.height);
		};
		svg.append(brush);
		svg.addEventListener("pointermove", function (event) {
			const tick = tickAt(event), row = rowAt(event);
			if (begun !== null) {
				const a = self.x(Math.max(self.from, Math.min(begun, tick))),
					b = self.x(Math.min(self.to, Math.max(begun, tick)));
				brush.setAttribute("x", a);
				brush.setAttribute("width", Math.max(0, b - a));
				return ls.untip();
			}
			if (row && tick >= self.from && tick <= self.to) ls.showTip(event, self.lines(row, tick));
			else ls.untip();
		});
		svg.addEventListener("pointerleave", ls.untip);
		svg.addEventListener("pointerdown", function (event) {
			const tick = tickAt(event);
			if (event.button !== 0 || event.pointerType === "touch" || tick < self.from) return;
			begun = tick;
			svg.setPointerCapture(event.pointerId);
		});
		svg.addEventListener("pointerup", function (event) {
			const first = begun, last = tickAt(event);
			begun = null;
			brush.setAttribute("width", 0);
			if (first !== null && Math.abs(self.x(last) - self.x(first)) > 6) self.show(Math.min(first, last),
				Math.max(first, last));
		});
		svg.addEventListener("dblclick", () => self.show(0, self.ticks));
		svg.addEventListener("wheel", function (event) {
			if (!event.ctrlKey) return;
			event.preventDefault();
			self.zoom(event.deltaY > 0 ? 1.3 : 1 / 1.3, tickAt(event));
		}, {passive: false});
	};

	ls.panels.gantt = (panel, box, frame) => { new Gantt(panel, box, frame); };
})(window.lockstep = window.lockstep || {});
