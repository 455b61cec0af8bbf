/* serve-compare.js: an answer at a glance, and kept answers side by side. */

const ls = window.lockstep, at = (id) => document.getElementById(id);
const MOST = 12;

/* ---- an answer in a few figures ---- */

const numberOf = (text) => Number(String(text).replace(/[\s,]/g, ""));
/* As the program writes them: $0.0312, $56.10, $11,234. */
export const dollars = (amount) => "$" + (amount < 0.1 ? amount.toFixed(4) : amount < 999.995 ? amount.toFixed(2)
	: ls.whole(Math.round(amount)));

/* The lowest list price of a GPU-hour of machines with this GPU; null: none is listed. */
function priceOf(machines, gpu) {
	const offers = machines.filter((m) => m.gpu === gpu && m.usd_h_per_gpu > 0);
	return offers.reduce((least, m) => !least || m.usd_h_per_gpu < least.usd_h_per_gpu ? m : least, null);
}

/* Dollars per hour of so many GPUs, at the lowest list price; NaN: none is listed. */
export function hourly(machines, gpu, gpus) {
	const offer = priceOf(machines, gpu);
	return offer && gpus > 0 ? offer.usd_h_per_gpu * gpus : NaN;
}

/* {fits, verdict, step, range, rate, mfu, memory, cost, costNote, perMillion} of a report of predict. */
export function summary(report, machines, gpu, gpus) {
	const verdict = report.panels.find((p) => p.kind === "verdict") || {};
	const figure = (label) => (verdict.figures || []).find((f) => f.label === label) || {};
	const step = figure("step time"), rate = figure("tokens/s/GPU"), offer = priceOf(machines, gpu);
	const memory = /^(?:needs )?(\S+ \S+) of (\S+ \S+)/.exec(verdict.detail || "");
	const cost = hourly(machines, gpu, gpus);
	const perMillion = offer && rate.value ? offer.usd_h_per_gpu / 3600 / numberOf(rate.value) * 1e6 : NaN;
	return {
		fits: verdict.state !== "no",
		verdict: verdict.title || "",
		step: step.value || "\u2013",
		range: step.range || "",
		rate: rate.value || "",
		mfu: figure("MFU").value || "",
		memory: memory ? memory[1] + " of " + memory[2] : verdict.detail || "",
		cost: cost > 0 ? dollars(cost) + "/h" : "no list price",
		costNote: offer ? `${offer.provider} ${offer.instance}, ${dollars(offer.usd_h_per_gpu)} a GPU and hour, `
			+ `list price, ${offer.date}` : "lockstep rent --prices FILE reads your own prices",
		perMillion: perMillion > 0 ? dollars(perMillion) : "",
	};
}

/* The line that stays in sight: verdict, step, memory, cost. */
export function showGlance(box, said) {
	const item = (label, value, note, name) => {
		const one = ls.el("div", name || "", ls.el("dt", "", label), ls.el("dd", "", value));
		if (note) one.title = note;
		return one;
	};
	box.replaceChildren(
		item("verdict", said.verdict, "", said.fits ? "sv-yes" : "sv-no"),
		item("step", said.step, said.range && "80 % range: " + said.range),
		item("memory", said.memory),
		item("cost", said.cost + (said.perMillion ? ", " + said.perMillion + " per million tokens" : ""), said.costNote));
}

/* ---- side by side ---- */

/* How a state differs from the first, as options; of the first its model and GPUs. */
function nameOf(state, first) {
	if (state === first) {
		const gpus = state.get("gpus");
		return [state.get("model"), state.get("gpu"), gpus && gpus + (gpus === "1" ? " GPU" : " GPUs")].filter(Boolean)
			.map((text) => text.startsWith("{") ? "config.json" : text).join(", ");
	}
	const changes = [];
	for (const name of new Set([...first.keys(), ...state.keys()])) {
		if (state.get(name) === first.get(name)) continue;
		const text = state.get(name) || "default";
		changes.push(name + " " + (text.length > 40 ? text.slice(0, 37) + "\u2026" : text));
	}
	return changes.join(", ") || "the same";
}

const COLUMNS = [
	{key: "answer", title: "answer"}, {key: "verdict", title: "verdict"}, {key: "step", title: "step", right: true},
	{key: "against_first_pctg", title: "against the first", right: true},
	{key: "tokens_s_gpu", title: "tokens/s/GPU", right: true}, {key: "mfu", title: "MFU", right: true},
	{key: "memory", title: "memory", right: true}, {key: "cost", title: "cost", right: true},
	{key: "usd_per_million_tokens", title: "cost of a million tokens", right: true},
];

/* Seconds of "20.9 s", "812 ms", "1.2 min". */
function secondsOf(text) {
	const found = /^([\d.]+) (us|ms|s|min|h)$/.exec(text);
	return found ? Number(found[1]) * {us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600}[found[2]] : NaN;
}

function rowOf(answer, first) {
	const said = answer.said, now = secondsOf(said.step), before = secondsOf(first.said.step);
	const change = answer === first ? NaN : 100 * (now / before - 1);
	const number = (text) => text ? [numberOf(text.replace(/[$%]/g, "")), text] : null;
	return [nameOf(answer.state, first.state), said.verdict, [now, said.step],
		Number.isFinite(change) ? [change, (change > 0 ? "+" : "") + change.toFixed(1) + " %"] : null,
		number(said.rate), number(said.mfu), said.memory, said.cost, number(said.perMillion)];
}

/* The kept answers, in the order in which they were kept. `open(state)` shows one again; `changed()` is called when one
 * is added or removed. */
export class Kept {
	constructor(open, changed) {
		this.answers = []; /* {state, said} */
		this.open = open;
		this.changed = changed;
	}

	/* As parts of an address, and back: `said(state)` predicts an answer again. */
	texts() {
		return this.answers.map((answer) => new URLSearchParams([...answer.state]).toString());
	}

	async take(texts, said) {
		if (JSON.stringify(texts) === JSON.stringify(this.texts())) return;
		const mine = this.answers = texts.slice(0, MOST).map((text) =>
			({state: new Map(new URLSearchParams(text)), said: null}));
		this.show();
		await Promise.all(mine.map(async (answer) => { answer.said = await said(answer.state); }));
		this.answers = this.answers.filter((answer) => answer.said || !mine.includes(answer));
		this.show();
	}

	keep(state, said) {
		const same = (a, b) => a.size === b.size && [...a].every(([name, text]) => b.get(name) === text);
		if (this.answers.some((answer) => same(answer.state, state))) return false;
		if (this.answers.length === MOST) this.answers.shift();
		this.answers.push({state, said});
		this.show();
		this.changed();
		return true;
	}

	drop(answer) {
		this.answers = this.answers.filter((other) => other !== answer);
		this.show();
		this.changed();
	}

	show() {
		const count = this.answers.length, box = at("comparison");
		at("tab-compare").textContent = count ? `Compare (${count})` : "Compare";
		at("compare-none").hidden = count > 0;
		at("compare-choices").replaceChildren(...this.answers.map((answer) => this.choice(answer)));
		box.replaceChildren();
		const known = this.answers.filter((answer) => answer.said);
		if (!known.length) return;
		const made = ls.table(COLUMNS, known.map((answer) => rowOf(answer, known[0])));
		const frame = {tools: ls.el("div", "ls-tools")};
		ls.tableTools(frame, made, "Side by side");
		box.append(ls.el("section", "ls-panel ls-wide",
			ls.el("header", "", ls.el("h3", "", "Side by side"), frame.tools), made.table));
	}

	choice(answer) {
		const name = nameOf(answer.state, this.answers[0].state);
		const button = (label, act) => {
			const b = ls.el("button", "", label);
			b.type = "button";
			b.setAttribute("aria-label", label + ": " + name);
			b.addEventListener("click", act);
			return b;
		};
		return ls.el("div", "sv-kept", ls.el("span", "", name), button("Show", () => this.open(answer.state)),
			button("Remove", () => this.drop(answer)));
	}
}
