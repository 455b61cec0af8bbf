/* serve-fields.js: controls made from the option table of the server, and the state that they hold: a Map of texts by
 * option, as it stands in the address. */

const ls = window.lockstep;

/* The controls that are always in sight, in this order, by groups with names. */
const GROUPS = {"Model and GPUs": ["model", "gpu", "gpus"], "Parallel degrees": ["tp", "pp", "vp", "cp", "ep"],
	Batch: ["mbs", "gbs", "seq"], "Format, memory, schedule": ["dtype", "recompute", "zero", "schedule"]};
export const MAIN = Object.values(GROUPS).flat();
const LABELS = {model: "Model", gpu: "GPU", gpus: "Number of GPUs", tp: "Tensor", pp: "Pipeline", vp: "Virtual stages",
	cp: "Context", ep: "Expert",
	mbs: "Micro-batch, samples", gbs: "Global batch, samples", seq: "Sequence, tokens", dtype: "Number format", recompute: "Recompute",
	zero: "ZeRO", schedule: "Schedule",
	tokens: "Tokens to train on", budget: "Budget", deadline: "Deadline", provider: "Providers", "most-gpus": "Most GPUs",
	spot: "Spot prices", top: "Rows shown",
	script: "Launch script", launch: "Launch line", deepspeed_config: "DeepSpeed config", config: "File of the job"};
/* The units of option values, as people write them. */
const UNITS = {W: "W", PIXELS: "pixels", MiB: "MiB", GiB: "GiB", TOKENS: "tokens", HOURS: "hours", H: "hours", MINUTES: "minutes",
	SECONDS: "s", MS: "ms", "GB/S": "GB/s", "G/KWH": "g/kWh", DOLLARS: "US dollars", PER_HOUR: "per hour",
	"SAMPLES/S": "samples/s", SHARE: "share"};
const labelOf = (option) => (LABELS[option.name] || option.name)
	+ (option.type !== "list" && UNITS[option.value] ? ", " + UNITS[option.value] : "");
/* How values may be written that are more than a number. */
const EXAMPLES = {"tokens N": "15T", "budget DOLLARS": "$20k", "deadline HOURS": "240, 14d, 2 weeks", "provider NAME,...": "aws,gcp"};
/* Numbers that are doubled and halved more often than counted. */
const DOUBLED = new Set(["gpus", "tp", "pp", "cp", "ep", "mbs", "gbs", "seq"]);
/* Texts of which the usual ones are known; others are taken too where the server takes them. */
export const KNOWN = {
	dtype: ["fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"], recompute: ["none", "selective", "full"],
		zero: ["0", "1", "2", "3"],
	schedule: ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe", "dualpipev"],
		optimizer: ["adam", "sgd", "lamb", "adafactor"],
	"state-dtype": ["fp32", "bf16", "fp8"], task: ["pretrain", "sft", "lora"], "cp-kind": ["ring", "all-gather", "ulysses"],
	attention: ["flash", "unfused"], dispatcher: ["alltoall", "allgather", "node"],
	stack: ["megatron", "nemo", "fsdp", "llm-foundry", "torchtitan", "deepspeed"], ranks: ["all"],
};
/* The example that the page begins with. It leaves open what the program decides. */
export const BEGIN = {model: "llama3.1-70b", gpu: "h100-sxm", gpus: "64"};
const CONFIG_NAME = "config.json";
/* Where the server reads a launch line from, and what it is called. */
const SOURCES = {launch: "line", script: "script", deepspeed_config: "DeepSpeed config", config: "file"};
export const isSource = (name) => name in SOURCES;
/* Those that are a question of their own; DeepSpeed's file goes with another. */
export const isJob = (name) => isSource(name) && name !== "deepspeed_config";
/* How a job is laid out: open where a chosen layout does not say it. */
const LAYOUT = ["tp", "pp", "vp", "cp", "ep", "etp", "dp", "mbs", "zero", "shard-group", "recompute", "schedule", "stack",
	"first-stage-layers", "last-stage-layers", "pipeline-layout", "bucket", "sequence-parallel", "tp-overlap",
	"overlap-grad-reduce", "overlap-param-gather", "overlap-p2p", "offload-optimizer"];

/* ---- words of a launch line ---- */

/* Blanks divide words; quotes and backslashes keep them together, as in a shell. */
export function words(line) {
	const list = [];
	let word = "", open = "", some = false;
	for (let i = 0; i < line.length; i++) {
		const c = line[i];
		if (open === "'" ? c !== "'" : open === '"' && c !== '"' && c !== "\\") word += c;
		else if (c === "\\") {
			i++;
			if (i < line.length && line[i] !== "\n") word += line[i], some = true;
		} else if (c === "'" || c === '"') open = open ? "" : c, some = true;
		else if (/\s/.test(c)) {
			if (word || some) list.push(word);
			word = "", some = false;
		} else word += c;
	}
	if (word || some) list.push(word);
	return list;
}

/* ---- from texts to JSON ---- */

/* What the interface takes for the text of an option; a text that is no number stays one, for the server to refuse. */
export function valueOf(option, text) {
	switch (option.type) {
	case "boolean": return text === "on";
	case "number":
	case "count": return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
	case "text_or_object": return text.startsWith("{") ? parsed(text) : text;
	case "object": return parsed(text);
	case "words": return words(text);
	default: return text;
	}
}

function parsed(text) {
	try { return JSON.parse(text); } catch { return text; }
}

/* The server reads suffixes of whole numbers too: 8k. */
const isNumber = (option) => option.type === "number" || option.type === "count" && option.integer;

/* And back: a Map of texts. */
const textsOf = (fields) => new Map(Object.entries(fields).map(([name, value]) =>
	[name, typeof value === "boolean" ? value ? "on" : "off" : String(value)]));

/* A command that writes a file. */
function hereDocument(name, text) {
	let end = "END";
	while (text.split("\n").includes(end)) end += "_";
	return `cat > ${name} <<'${end}'\n${text}${text.endsWith("\n") ? "" : "\n"}${end}\n`;
}

/* The report of an answer to `body`, whose commands begin with those that write the files which they name. */
export function withFiles(report, body, options) {
	let files = "";
	for (const option of options) {
		const content = body[option.name], object = content && typeof content === "object";
		if (content && option.file && (object || option.type === "content"))
			files += hereDocument(option.file, object ? JSON.stringify(content) : content);
	}
	const put = (command) => command && command.startsWith("lockstep ") ? files + command : command;
	report.reproduce = put(report.reproduce);
	for (const panel of report.panels) {
		if (panel.commands) panel.commands.before = put(panel.commands.before);
		if (panel.kind === "scatter") for (const s of panel.series) for (const p of s.points) p[3] = put(p[3]);
	}
	return report;
}

/* ---- controls ---- */

/* Of lists that need not have a choice. */
const OPEN = {model: "(of a launch line)", gpu: "(of a cluster)"};

function choice(values, first) {
	const select = ls.el("select");
	if (first !== undefined) select.append(new Option(first, ""));
	for (const [value, label] of values) select.append(new Option(label, value));
	return select;
}

/* A select that also holds a value that is not in its list: one of a link, or a config. */
function chooseText(select, text, label) {
	if (text && ![...select.options].some((o) => o.value === text)) select.append(new Option(label || text, text));
	select.value = text;
}

function steps(input, name, low, high, changed) {
	const move = (factor) => {
		const now = Number(input.value) || low || 1;
		input.value = Math.min(high || Infinity, Math.max(low || 1,
			factor < 1 ? Math.ceil(now * factor) : now * factor));
		changed();
	};
	const button = (label, title, factor) => {
		const b = ls.el("button", "sv-step", label);
		b.type = "button";
		b.title = name + ": " + title;
		b.setAttribute("aria-label", label + " " + b.title);
		b.addEventListener("click", () => move(factor));
		return b;
	};
	return ls.el("span", "sv-stepped", button("\u00f72", "halve", 0.5), input, button("\u00d72", "double", 2));
}

function fileButton(label, take) {
	const input = ls.el("input", "sv-hidden"), button = ls.el("button", "sv-small", label);
	input.type = "file", input.accept = ".json,application/json", input.tabIndex = -1;
	input.setAttribute("aria-hidden", "true");
	button.type = "button";
	button.addEventListener("click", () => input.click());
	input.addEventListener("change", async () => {
		if (input.files[0]) take(await input.files[0].text());
		input.value = "";
	});
	return ls.el("span", "", button, input);
}

/* {element, get, set}: the control of an option; `prefix` is of its id. */
export function control(option, lists, changed, prefix = "f-") {
	const name = option.name;
	let box, input;
	const plain = (type) => {
		input = ls.el("input");
		input.type = type;
		input.placeholder = EXAMPLES[option.name + " " + option.value] || (isNumber(option) || !option.value ? "" : option.value);
	};
	if ((name === "model" || name === "gpu") && option.type !== "list") {
		input = choice(lists[name].map((m) => [m.name, m.name]), OPEN[name]);
	} else if (option.type === "boolean") {
		input = choice([["on", "on"], ["off", "off"]], "default");
	} else if (option.type !== "list" && (option.choices || KNOWN[name])) {
		input = choice((option.choices || KNOWN[name]).map((v) => [v, v]), "default");
	} else if (option.type === "content" || option.type === "words" || option.repeats) {
		input = ls.el("textarea");
		input.rows = option.repeats ? 2 : 3;
		input.placeholder = option.repeats ? option.value + ", one a line" : "";
		input.spellcheck = false;
	} else if (option.type === "object") {
		input = choice([], "none");
	} else if (isNumber(option)) {
		plain("text");
		input.inputMode = option.integer ? "numeric" : "decimal";
		if (DOUBLED.has(name))
			box = steps(input, LABELS[name] || name, option.low, option.high, () => changed(name));
	} else {
		plain("text");
	}
	input.id = prefix + name;
	input.name = name;
	input.addEventListener("input", (event) => changed(name, event));
	const set = (text) => {
		if (input.tagName === "SELECT") chooseText(input, text, text.startsWith("{") ? CONFIG_NAME : text);
		else if (input.value !== text) input.value = text; /* where nothing is new, undoing goes on */
	};
	if (option.type === "text_or_object" || option.type === "object")
		box = ls.el("span", "sv-with", input, fileButton(name === "model" ? "config.json\u2026" : "file\u2026",
			(text) => { set(text); changed(name); }));
	const label = ls.el("label", "", labelOf(option)), why = ls.el("p", "sv-why");
	why.id = input.id + "-why", why.hidden = true;
	label.htmlFor = input.id;
	label.title = "--" + name + ": " + option.help;
	const element = ls.el("div", "sv-field", label, box || input, why);
	return {option, element, input, why, set, get: () => input.value.trim() ? input.value : ""};
}

/* The option that the place of an error names: "cluster" of "--cluster, column 3"; "" where it names none. */
export const optionOf = (where) => (/^--([\w-]+)/.exec(where) || ["", ""])[1];

/* Marks the control that an error names and the one whose change caused it, and no other. What is wrong is said at the
 * cause; without one, at the control that is named. */
export function markControls(controls, where, text, cause) {
	const named = optionOf(where), at = text && controls.has(cause) ? cause : named;
	for (const [name, c] of controls) {
		const told = name === at, wrong = told || name === named;
		c.input.toggleAttribute("aria-invalid", wrong);
		c.why.hidden = !told;
		c.why.textContent = told ? text.replace(where + ": ", "") : "";
		if (wrong && controls.has(at)) c.input.setAttribute("aria-describedby", controls.get(at).why.id);
		else c.input.removeAttribute("aria-describedby");
		if (told && c.element.closest("details")) c.element.closest("details").open = true;
	}
}

/* The controls of a verb in two boxes; `changed` takes the name of the option whose control was. */
export class Fields {
	constructor(table, lists, main, more, changed) {
		this.controls = new Map();
		this.stated = new Map(); /* what the launch line in the controls states, as texts */
		this.sources = new Map(); /* the launch line that was shown or read last, and other sources */
		const options = [...table.filter((o) => o.type !== "refused"),
			{name: "launch", type: "words", group: table[0].group,
			help: "a launch line, as it is typed for Megatron-LM and others, or a lockstep predict command: it fills "
				+ "the controls"}];
		for (const [title, names] of Object.entries(GROUPS)) {
			const some = ls.el("fieldset", "sv-fields", ls.el("legend", "", title));
			main.append(some);
			for (const name of names) this.add(options.find((o) => o.name === name), lists, some, changed);
		}
		let group = null, box = null;
		for (const o of options) {
			if (MAIN.includes(o.name)) continue;
			if (o.group !== group) {
				group = o.group;
				box = ls.el("fieldset", "sv-fields", ls.el("legend", "", group));
				more.append(box);
			}
			this.add(o, lists, box, changed);
		}
	}

	add(option, lists, box, changed) {
		if (!option) return;
		const c = control(option, lists, changed);
		this.controls.set(option.name, c);
		box.append(c.element);
	}

	/* The state, as texts. */
	texts() {
		const state = new Map();
		for (const [name, c] of this.controls) if (c.get()) state.set(name, c.get());
		return state;
	}

	show(state) {
		for (const [name, c] of this.controls) c.set(state.get(name) || "");
		this.sources = new Map([...this.texts()].filter(([name]) => isSource(name)));
		this.showDefaults({});
	}

	/* The fields of a request. Where a control shows what the launch line states, the line is enough. */
	request() {
		return this.body((name, text) => this.stated.get(name) !== text);
	}

	body(wanted) {
		return this.requestOf(new Map([...this.texts()].filter(([name, text]) => wanted(name, text))));
	}

	/* The fields of a request for texts that the controls need not hold. */
	requestOf(state) {
		const body = {};
		for (const [name, text] of state)
			if (this.controls.has(name)) body[name] = valueOf(this.controls.get(name).option, text);
		return body;
	}

	/* ---- launch lines, as POST /api/v1/launch reads them ---- */

	/* What of a state it is to read; null: nothing. */
	sourceOf(state) {
		const body = this.requestOf(new Map([...state].filter(([name]) => isSource(name))));
		return Object.keys(body).length ? body : null;
	}

	/* The line in the controls is the one that was read; null: there is none. */
	state(said) {
		this.stated = textsOf(said ? said.line : {});
		if (said?.network) this.stated.set("model", "");
	}

	/* Whether the line in the controls neither states nor names a network. */
	lacksNetwork() {
		return !this.stated.has("model");
	}

	/* The state without what the line in the controls states: what was chosen. */
	chosen() {
		return new Map([...this.texts()].filter(([name, text]) => this.stated.get(name) !== text));
	}

	/* Shows what was read, and over it what was chosen, or what a command that was read says. */
	take(chosen, said) {
		const next = new Map(chosen);
		this.state(said);
		if (said.command) {
			if (said.command.launch) next.set("launch", said.command.launch);
			else next.delete("launch");
			for (const [name, text] of textsOf(said.command.options)) next.set(name, text);
		}
		this.show(new Map([...this.stated, ...next]));
	}

	/* Takes over a layout from its command, and a launch line if it has one, but neither the network nor the GPUs. */
	takeLayout(said, gpus) {
		const {launch, options} = said.command, chosen = this.chosen();
		for (const name of launch ? [...LAYOUT, ...Object.keys(SOURCES)] : LAYOUT) chosen.delete(name);
		for (const name of ["model", "gpu", "cluster"]) delete options[name];
		this.take(chosen, {...said, command: {launch, options: {...options, gpus}}});
	}

	/* Where line and controls differ, in a sentence, or "". */
	conflict() {
		const now = this.texts(), line = [], page = [];
		for (const [name, text] of now) {
			const said = this.stated.get(name);
			if (isSource(name) || said === undefined || said === text) continue;
			line.push(name === "model" && !said ? "a network of its own" : this.spelled(name, said));
			page.push(this.spelled(name, text));
		}
		if (!line.length) return "";
		const many = page.length > 1, source = Object.keys(SOURCES).find((name) => now.has(name)) || "launch";
		const all = (list) => list.join(", ");
		return `The ${SOURCES[source]} says ${all(line)}; the control${many ? "s say" : " says"} ${all(page)}: `
			+ `the control${many ? "s are" : " is"} used.`;
	}

	/* As on the command line. */
	spelled(name, text) {
		if (!text) return "no --" + name;
		if (this.controls.get(name).option.type === "boolean") return (text === "on" ? "--" : "--no-") + name;
		return "--" + name + " " + (text.startsWith("{") ? CONFIG_NAME : text);
	}

	/* What controls that are left open stand for, as the answer says it: "1" in an empty field, and "default: bf16" where
	 * a short value was chosen. */
	showDefaults(result) {
		const said = words(result.reproduce || ""), layout = result.layout || {};
		for (const [name, c] of this.controls) {
			const at = said.indexOf("--" + name), value = String((at < 0 ? layout[name] : said[at + 1]) ?? "");
			const first = c.input.tagName === "SELECT" && c.input.options[0];
			if (name in OPEN) first.text = name === "model" && result.model && !c.get()
				? `(${/^[^,]*/.exec(result.model)[0]})` : OPEN[name];
			else if (first && first.text.startsWith("default"))
				first.text = value && value.length < 6 ? "default: " + value : "default";
			else if (isNumber(c.option)) c.input.placeholder = value;
		}
	}

	/* The fields whose content commands name as files. */
	contents() {
		return this.body((name, text) => this.controls.get(name).option.file && (isSource(name) || text.startsWith("{")));
	}

	/* What is wrong with them. */
	mark(where, text, cause) {
		markControls(this.controls, where, text, cause);
	}
}

/* ---- the address ---- */

/* `own`: the controls of the view itself; `asked`: it shows an answer to them. */
export function toHash(state, view, kept = [], own = new Map(), asked = false) {
	const parts = new URLSearchParams(state);
	if (view !== "predict") parts.set("view", view);
	for (const [name, text] of own) parts.set(view + "." + name, text);
	if (asked) parts.set("asked", "1");
	for (const text of kept) parts.append("keep", text);
	return "#" + parts.toString();
}

export function fromHash(hash) {
	const parts = new URLSearchParams(hash.slice(1)), state = new Map(parts), kept = parts.getAll("keep");
	const view = state.get("view") || "predict", asked = state.has("asked"), own = new Map();
	for (const [name, text] of [...state]) {
		if (!name.includes(".")) continue;
		if (name.startsWith(view + ".")) own.set(name.slice(view.length + 1), text);
		state.delete(name);
	}
	for (const name of ["view", "keep", "asked"]) state.delete(name);
	return {state: state.size ? state : new Map(Object.entries(BEGIN)), view, kept, own, asked};
}
