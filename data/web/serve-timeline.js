/* serve-timeline.js: the predicted step as a timeline: a row for each stream of each rank that stands for others. Drawn
 * on a canvas; by pointer, wheel and keyboard. Perfetto gets the same events, when somebody asks for that. */
import {post} from "./serve-api.js";

const ls = window.lockstep;
const ROW = 18, GAP = 3, AXIS = 22, HEAD = 17, COLOURS = 8, MOST_ROWS = 400, LEAST_US = 0.001;
const FONT = "11px system-ui, sans-serif";
const PERFETTO = "https://ui.perfetto.dev", PING_MS = 100, GIVE_UP_MS = 60000;

/* ---- Perfetto: its page is opened, answers PING with PONG, and is given the events ---- */

function openInPerfetto(text, title, say) {
	const other = window.open(PERFETTO), begun = performance.now();
	if (!other) return say("the browser lets this page open no window; save the trace and open it there");
	const end = () => { clearInterval(timer); removeEventListener("message", hear); };
	const hear = (event) => {
		if (event.source !== other || event.origin !== PERFETTO || event.data !== "PONG") return;
		end();
		other.postMessage({perfetto: {buffer: new TextEncoder().encode(text).buffer, title}}, PERFETTO);
		say("");
	};
	const timer = setInterval(() => {
		if (performance.now() - begun > GIVE_UP_MS) end(), say("ui.perfetto.dev does not answer; save the trace and open it there");
		else other.postMessage("PING", PERFETTO);
	}, PING_MS);
	addEventListener("message", hear);
}

/* ---- events as rows ---- */

/* A number from 0 to COLOURS - 1 that a name always has. */
function colourOf(name) {
	let sum = 7;
	for (const c of name) sum = (sum * 31 + c.charCodeAt(0)) >>> 0;
	return sum % COLOURS;
}

/* [{rank, name, spans}] of Chrome's trace events, spans in the order of their starts. */
export function rowsOf(events) {
	const names = new Map(), order = new Map(), rows = new Map();
	for (const e of events) {
		if (e.ph === "M" && e.name === "process_name") names.set(e.pid, e.args.name);
		else if (e.ph === "M" && e.name === "thread_name") names.set(e.pid + "." + e.tid, e.args.name);
		else if (e.ph === "M" && e.name === "thread_sort_index") order.set(e.pid + "." + e.tid, e.args.sort_index);
		if (e.ph !== "X") continue;
		const key = e.pid + "." + e.tid;
		if (!rows.has(key)) rows.set(key, {pid: e.pid, key, spans: []});
		rows.get(key).spans.push({name: e.name, kind: e.cat || "", from: e.ts, to: e.ts + (e.dur || 0), args: e.args || {}});
	}
	const list = [...rows.values()].sort((a, b) => a.pid - b.pid || (order.get(a.key) || 0) - (order.get(b.key) || 0));
	for (const row of list) {
		row.rank = names.get(row.pid) || "process " + row.pid;
		row.name = names.get(row.key) || row.key;
		row.spans.sort((a, b) => a.from - b.from || b.to - a.to);
	}
	return list;
}

/* The last span that starts at or before a time; -1: none. */
function spanAt(spans, time) {
	let low = 0, high = spans.length - 1, found = -1;
	while (low <= high) {
		const mid = (low + high) >> 1;
		if (spans[mid].from <= time) found = mid, low = mid + 1;
		else high = mid - 1;
	}
	return found;
}

/* ---- the view ---- */

export class Timeline {
	constructor(box, say) {
		this.say = say, this.asked = "", this.rows = [], this.from = 0, this.to = 1, this.end = 1;
		this.row = 0, this.span = -1, this.matches = [], this.match = -1;
		const button = (label, title, act) => ls.button(label, title, act);
		this.canvas = ls.el("canvas", "sv-lanes");
		this.canvas.tabIndex = 0;
		this.canvas.id = "timeline-canvas";
		this.canvas.setAttribute("role", "application");
		this.canvas.setAttribute("aria-label", "Timeline of the step. Plus and minus zoom, left and right move, up and down "
			+ "choose a row, N and P the next and previous span, Home shows the whole step.");
		this.said = ls.el("p", "ls-note");
		this.said.id = "timeline-said";
		this.said.setAttribute("role", "status");
		this.search = ls.el("input");
		this.search.type = "search", this.search.id = "timeline-search", this.search.placeholder = "operation";
		const label = ls.el("label", "sv-field", ls.el("span", "", "Search"), this.search);
		label.htmlFor = this.search.id;
		this.count = ls.el("span", "sv-count");
		this.count.setAttribute("role", "status");
		const perfetto = button("Open in Perfetto", "opens ui.perfetto.dev in a new window and hands it this trace",
			() => openInPerfetto(this.text, this.title, say));
		perfetto.id = "timeline-perfetto";
		box.replaceChildren(ls.el("div", "sv-task", ls.el("p", "", "Every operation of the predicted step. Nothing "
			+ "leaves this machine unless you open it in Perfetto, which gets the events of this step."),
			ls.el("div", "sv-row", label, this.count, ls.el("div", "ls-tools",
			button("+", "zoom in", () => this.zoom(0.5)), button("\u2212", "zoom out", () => this.zoom(2)),
			button("\u2039", "earlier", () => this.pan(-0.4)), button("\u203a", "later", () => this.pan(0.4)),
			button("whole step", "show all of it", () => this.show(0, this.end)),
			button("Save", "save the events as Chrome's trace format", () => ls.save("step.json", "application/json", this.text)),
			perfetto))), ls.el("div", "ls-report", ls.el("section", "ls-panel ls-wide", this.said,
			ls.el("div", "sv-lanes-box", this.canvas))));
		this.listen();
		ls.watch(this.canvas.parentNode, () => this.draw());
	}

	/* Shows the step of a request; nothing where it is there already. */
	async look(request) {
		const asked = JSON.stringify(request);
		if (asked === this.asked) return;
		this.asked = asked;
		this.said.textContent = "being predicted \u2026";
		try {
			const found = await post("predict?form=timeline", request);
			if (asked !== this.asked) return;
			this.text = JSON.stringify(found);
			this.title = [request.model, request.gpus && request.gpus + " GPUs"].filter((t) => typeof t === "string").join(", ") || "lockstep";
			this.take(rowsOf(found.traceEvents));
		} catch (error) {
			if (asked !== this.asked) return;
			this.asked = "";
			this.said.textContent = "no timeline: " + error.message;
		}
	}

	take(rows) {
		this.rows = rows.slice(0, MOST_ROWS);
		this.end = Math.max(1, ...this.rows.map((r) => r.spans.reduce((most, s) => Math.max(most, s.to), 0)));
		this.row = 0, this.span = -1;
		/* The name of a rank stands above its first row. */
		this.bottom = AXIS;
		this.rows.forEach((row, i) => {
			row.first = i === 0 || this.rows[i - 1].pid !== row.pid;
			row.y = this.bottom + (row.first ? HEAD : 0);
			this.bottom = row.y + ROW + GAP;
		});
		this.find();
		this.show(0, this.end);
		const left = rows.length - this.rows.length, count = this.rows.reduce((sum, r) => sum + r.spans.length, 0);
		this.said.textContent = `${ls.whole(count)} operations on ${this.rows.length} rows`
			+ (left > 0 ? `; ${left} more rows are in the file alone` : "");
	}

	/* ---- what is in view ---- */

	show(from, to) {
		const least = Math.min(this.end, Math.max(LEAST_US, this.end * 1e-7)), length = Math.min(this.end, Math.max(least, to - from));
		this.from = Math.max(0, Math.min(from, this.end - length));
		this.to = this.from + length;
		this.draw();
	}

	zoom(factor, around = (this.from + this.to) / 2) {
		this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
	}

	pan(share) {
		const by = share * (this.to - this.from);
		this.show(this.from + by, this.to + by);
	}

	x(time) {
		return this.left + (time - this.from) / (this.to - this.from) * (this.width - this.left);
	}

	timeAt(x) {
		return this.from + (x - this.left) / (this.width - this.left) * (this.to - this.from);
	}

	/* ---- drawing ---- */

	palette() {
		const probe = ls.el("i"), colours = [];
		this.canvas.parentNode.append(probe);
		for (let i = 0; i < COLOURS; i++) {
			probe.className = "ls-swatch ls-s-" + i;
			colours.push(getComputedStyle(probe).backgroundColor);
		}
		const said = getComputedStyle(probe);
		const one = (name) => said.getPropertyValue(name).trim();
		const all = {colours, ink: one("--ink"), soft: one("--soft"), grid: one("--grid"), lane: one("--lane"), found: one("--bad"), card: one("--card")};
		probe.remove();
		return all;
	}

	draw() {
		const box = this.canvas.parentNode, width = box.clientWidth, height = this.bottom + 4;
		if (width <= 0 || !this.rows.length) return;
		const sharp = Math.min(2, devicePixelRatio || 1), g = this.canvas.getContext("2d");
		g.font = FONT;
		this.width = width, this.left = Math.ceil(Math.max(...this.rows.map((r) => g.measureText(r.name).width))) + 8;
		this.canvas.width = width * sharp, this.canvas.height = height * sharp;
		this.canvas.style.width = width + "px", this.canvas.style.height = height + "px";
		g.setTransform(sharp, 0, 0, sharp, 0, 0);
		g.font = FONT;
		const p = this.palette(), drawn = [];
		this.drawAxis(g, p, height);
		this.rows.forEach((row, i) => drawn.push(this.drawRow(g, p, row, i)));
		this.canvas.dataset.drawn = drawn.reduce((a, b) => a + b, 0);
	}

	drawAxis(g, p, height) {
		const ticks = ls.ticks(this.from, this.to, (this.width - this.left) / 110), texts = ls.labels(ticks, (t, n) => ls.seconds(t * 1e-6, n));
		ticks.forEach((t, i) => {
			g.fillStyle = p.grid;
			g.fillRect(this.x(t), AXIS - 4, 1, height);
			g.fillStyle = p.soft;
			g.fillText(texts[i], Math.min(this.x(t) + 3, this.width - 50), 12);
		});
	}

	/* Spans of less than a pixel are drawn as one while they follow one another. Returns how many shapes there are. */
	drawRow(g, p, row, i) {
		const y = row.y, spans = row.spans, words = this.words;
		if (row.first) g.fillStyle = p.ink, g.fillText(row.rank, 0, y - 5);
		g.fillStyle = i === this.row ? p.grid : p.lane;
		g.fillRect(this.left, y, this.width - this.left, ROW);
		let last = -1, count = 0;
		for (let k = Math.max(0, spanAt(spans, this.from)); k < spans.length && spans[k].from < this.to; k++) {
			const s = spans[k], from = Math.max(this.left, this.x(s.from)), to = Math.min(this.width, Math.max(from + 0.7, this.x(s.to)));
			const chosen = i === this.row && k === this.span, hit = words && s.name.toLowerCase().includes(words);
			if (to <= last + 0.5 && !chosen && !hit || s.to < this.from) continue;
			g.globalAlpha = words && !hit ? 0.3 : 1;
			g.fillStyle = p.colours[colourOf(s.name)];
			g.fillRect(from, y + 1, to - from, ROW - 2);
			if (hit || chosen) g.fillStyle = chosen ? p.ink : p.found, g.fillRect(from, chosen ? y : y + ROW - 3, Math.max(2, to - from), chosen ? 2 : 3);
			if (to - from > 40) this.drawText(g, p, s.name, from, to, y);
			last = to, count++;
		}
		g.globalAlpha = 1;
		g.fillStyle = p.card;
		g.fillRect(0, y, this.left, ROW);
		g.fillStyle = i === this.row ? p.ink : p.soft;
		g.fillText(row.name, 0, y + 13);
		return count;
	}

	drawText(g, p, text, from, to, y) {
		g.save();
		g.beginPath(), g.rect(from, y, to - from - 2, ROW), g.clip();
		g.fillStyle = p.ink;
		g.fillText(text, from + 3, y + 13);
		g.restore();
	}

	/* ---- choosing ---- */

	linesOf(row, span) {
		return [span.name, `${ls.seconds((span.to - span.from) * 1e-6)} from ${ls.seconds(span.from * 1e-6)}`, row.name + ", " + row.rank,
			span.kind, span.args.bytes ? ls.bytes(span.args.bytes) : null].filter(Boolean);
	}

	/* Chooses a span, says it, and brings it into view. */
	choose(row, span) {
		if (row < 0 || row >= this.rows.length) return;
		this.row = row, this.span = Math.max(-1, Math.min(span, this.rows[row].spans.length - 1));
		const s = this.rows[row].spans[this.span];
		this.said.textContent = s ? this.linesOf(this.rows[row], s).join(", ") : this.rows[row].name + ", " + this.rows[row].rank;
		if (s && (s.to < this.from || s.from > this.to)) {
			const half = (this.to - this.from) / 2, middle = (s.from + s.to) / 2;
			this.show(middle - half, middle + half);
		} else this.draw();
	}

	find() {
		this.words = this.search.value.trim().toLowerCase();
		this.matches = [], this.match = -1;
		if (this.words) this.rows.forEach((row, i) => row.spans.forEach((s, k) => {
			if (s.name.toLowerCase().includes(this.words)) this.matches.push([i, k]);
		}));
		this.count.textContent = this.words ? ls.whole(this.matches.length) + " found" : "";
		this.draw();
	}

	nextMatch(step) {
		const all = this.matches.length;
		if (!all) return;
		this.match = this.match < 0 && step < 0 ? all - 1 : (this.match + step + all) % all;
		const [row, span] = this.matches[this.match], s = this.rows[row].spans[span], room = Math.max(s.to - s.from, this.end * 1e-4) * 4;
		if (this.to - this.from > 10 * room) this.show(s.from - room, s.to + room);
		this.choose(row, span);
		this.count.textContent = ls.whole(this.match + 1) + " of " + ls.whole(all);
	}

	key(event) {
		const acts = {"+": () => this.zoom(0.5), "=": () => this.zoom(0.5), w: () => this.zoom(0.5), "-": () => this.zoom(2), s: () => this.zoom(2),
			ArrowLeft: () => this.pan(-0.2), a: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2), d: () => this.pan(0.2),
			ArrowUp: () => this.choose(this.row - 1, -1), ArrowDown: () => this.choose(this.row + 1, -1),
			n: () => this.choose(this.row, this.span < 0 ? Math.max(0, spanAt(this.rows[this.row].spans, this.from)) : this.span + 1),
			p: () => this.choose(this.row, Math.max(0, this.span - 1)), Home: () => this.show(0, this.end)};
		const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
		if (!act || event.ctrlKey || event.metaKey || event.altKey || !this.rows.length) return;
		event.preventDefault();
		act();
	}

	/* The row and the number of the span at the pointer. */
	under(event) {
		const box = this.canvas.getBoundingClientRect(), time = this.timeAt(event.clientX - box.left);
		const y = event.clientY - box.top, row = this.rows.findIndex((r) => y >= r.y && y < r.y + ROW + GAP);
		if (row < 0 || time < this.from) return null;
		const span = spanAt(this.rows[row].spans, time);
		return {row, span, inside: span >= 0 && this.rows[row].spans[span].to >= time};
	}

	listen() {
		const canvas = this.canvas;
		let held = null;
		canvas.addEventListener("keydown", (event) => this.key(event));
		canvas.addEventListener("pointerdown", (event) => {
			if (event.button !== 0) return;
			held = {x: event.clientX, from: this.from, to: this.to, moved: false};
			if (event.pointerType !== "touch") canvas.setPointerCapture(event.pointerId);
		});
		canvas.addEventListener("pointermove", (event) => {
			if (held) {
				const by = (held.x - event.clientX) / (this.width - this.left) * (held.to - held.from);
				held.moved ||= Math.abs(held.x - event.clientX) > 3;
				ls.untip();
				if (held.moved) this.show(held.from + by, held.to + by);
				return;
			}
			const at = this.under(event);
			if (at?.inside) ls.showTip(event, this.linesOf(this.rows[at.row], this.rows[at.row].spans[at.span]));
			else ls.untip();
		});
		canvas.addEventListener("pointerup", (event) => {
			const at = held && !held.moved ? this.under(event) : null;
			held = null;
			if (at) this.choose(at.row, at.inside ? at.span : -1);
		});
		canvas.addEventListener("pointercancel", () => { held = null; });
		canvas.addEventListener("pointerleave", ls.untip);
		canvas.addEventListener("dblclick", () => this.show(0, this.end));
		canvas.addEventListener("wheel", (event) => {
			if (!event.ctrlKey && !event.shiftKey) return;
			event.preventDefault();
			if (event.ctrlKey) this.zoom(event.deltaY > 0 ? 1.3 : 1 / 1.3, this.timeAt(event.clientX - canvas.getBoundingClientRect().left));
			else this.pan((event.deltaY || event.deltaX) > 0 ? 0.15 : -0.15);
		}, {passive: false});
		this.search.addEventListener("input", () => this.find());
		this.search.addEventListener("keydown", (event) => {
			if (event.key === "Enter") event.preventDefault(), this.nextMatch(event.shiftKey ? -1 : 1);
		});
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
	}
}
