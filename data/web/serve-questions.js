/* serve-questions.js: what is asked with a button: sweeps, plans, machines, changes, placements, traces, recordings. A
 * question has a row in the table, a view of its own, and a job on the server that is followed, cancelled, shown. */
import {authorization, get, post, read, Refusal, remove} from "./serve-api.js";
import {dollars, hourly} from "./serve-compare.js";
import {control, markControls, optionOf, valueOf, withFiles} from "./serve-fields.js";

const ls = window.lockstep, at = (id) => document.getElementById(id);
const POLL_MS = 150;

/* What plan searches: left out, or held where that is wanted. */
const SEARCHED = new Set(["tp", "pp", "vp", "cp", "ep", "etp", "mbs", "schedule", "zero", "recompute", "bucket", "stack"]);
const TABLES = {name: "tables", type: "content", file: "tables.csv", group: "Tables", help: "the lines of TABLES.csv: name, rows, dim, pooling"};

/* main: controls in sight, the others are folded away. shared(name): whether the controls on the left say an option
 * that this view's own do not. lists: controls take comma lists. files: a label for each choice of files; step: without
 * a file, the step predicted on the left. without: options that have no control here, as they ask nothing of files. */
export const QUESTIONS = {
	plan: {title: "Plan", go: "Plan", main: ["gpus", "top"], shared: (name) => !SEARCHED.has(name) || at("plan-fixed").checked,
		check: ["plan-fixed", "only the degrees of the main controls"],
		text: "The fastest layouts of this model on this GPU. Degrees, schedule, sharding, recomputation and overlap are "
			+ "searched; batch, sequence and number format are those of the main controls."},
	sweep: {title: "Sweep", go: "Predict all", lists: true, shared: () => true,
		main: ["gpus", "tp", "pp", "mbs", "gbs", "seq", "dtype", "recompute", "zero"],
		text: "Every combination of comma lists, as a table and a plot: \u201c8,16,32\u201d. What is left open is as in the "
			+ "main controls."},
	rent: {title: "Rent", go: "Find machines", shared: () => true,
		main: ["tokens", "budget", "deadline", "provider", "most-gpus", "spot"],
		text: "Which machines to rent for the model, batch and sequence of the main controls, by cost and time; layouts are "
			+ "searched. Without a length of the training: the most that budget and deadline buy."},
	whatif: {title: "What if", go: "Ask", files: ["Traces or a step graph"], step: true, main: ["set"],
		text: "A step with something changed, simulated again: \u201cnic=2x\u201d, \u201cgpus=256\u201d, \u201cdtype=fp8\u201d, one a "
			+ "line. Without files it is the step that the main controls describe."},
	shard: {title: "Shard", go: "Place tables", main: ["tables", "batch", "optimizer", "kinds", "host-memory"],
		shared: (name, own) => ["gpu", "gpus", "cluster"].includes(name) || (name === "model" && !own.tables),
		text: "Which embedding table goes on which of the GPUs of the main controls: lines of a CSV file, or, without them, those of "
			+ "the recommendation model there."},
	explain: {title: "Explain", go: "Explain", files: ["Traces"], main: ["steps", "top"],
		text: "Why a run is slow, from traces of torch.profiler, one file per rank. They stay on the machine that serves "
			+ "this page, and are removed when they have been read."},
	diff: {title: "Diff", go: "Compare runs", files: ["Trace before", "Trace after"], main: ["steps", "rank", "top"],
		text: "What changed between two profiled runs, and whether it is more than noise."},
	stalls: {title: "Stalls", go: "Estimate", files: ["Files of a recording"], main: ["what-if", "staging", "steps", "warmup"],
		without: ["model", "machine", "mbs", "seq", "dtype", "bucket", "samples"],
		text: "What stalls a training, estimated from all files of a folder that lockstep record made, or from text of "
			+ "darshan-parser. The server runs no command; lockstep stalls measures, and predicts networks on machines (--model)."},
};

/* ---- a job: its bar, its words, its button ---- */

class Task {
	constructor(name, say) {
		this.name = name, this.say = say, this.id = null, this.running = false;
		at(name + "-cancel").addEventListener("click", () => this.cancel());
	}

	progress(value, all, words) {
		const bar = at(this.name + "-bar");
		if (all) bar.max = all, bar.value = value;
		else bar.removeAttribute("value");
		at(this.name + "-said").textContent = words;
	}

	busy(on) {
		this.running = on;
		at(this.name + "-progress").hidden = !on;
		/* A button that is disabled would lose the focus. */
		at(this.name + "-go").setAttribute("aria-disabled", on);
	}

	/* start() gives the job; show(answer) takes what comes of it. */
	async run(start, show) {
		if (this.running) return;
		this.cancelled = false;
		this.busy(true);
		this.progress(0, 0, "");
		this.say("");
		try {
			let job = await start();
			this.id = job.id;
			while (!this.cancelled && (job.state === "waiting" || job.state === "running")) {
				this.follow(job);
				await new Promise((go) => setTimeout(go, POLL_MS));
				if (!this.cancelled) job = await get("jobs/" + job.id);
			}
			if (this.cancelled) return;
			await remove("jobs/" + job.id);
			if (job.state === "failed") throw new Refusal(job.error, job.status);
			show(job.answer);
		} catch (error) {
			if (!this.cancelled) this.say(error.message, error.where);
		} finally {
			this.id = null;
			this.busy(false);
		}
	}

	follow(job) {
		const p = job.progress;
		if (job.state === "waiting") this.progress(0, 0, "waiting for others");
		else if (p) this.progress(p.done, p.all, ls.whole(p.done) + " of " + ls.whole(p.all)
			+ (p.gpus ? " layouts for " + ls.whole(p.gpus) + " GPUs" : ""));
		else this.progress(0, 0, "at work");
	}

	async cancel() {
		this.cancelled = true;
		if (this.upload) this.upload.abort();
		if (this.id) await remove("jobs/" + this.id).catch(() => {});
		this.say("cancelled");
	}
}

/* fetch tells nothing of how far an upload is. */
function upload(task, files, options) {
	const form = new FormData(), request = task.upload = new XMLHttpRequest();
	form.append("options", JSON.stringify(options));
	for (const file of files) form.append("traces", file, file.name);
	return new Promise((resolve, reject) => {
		const lost = {text: "the files could not be sent; are they larger than the server takes?", where: "body"};
		const fail = () => reject(new Refusal(lost, 0));
		request.open("POST", "api/v1/" + task.name + "?form=report");
		request.setRequestHeader("Authorization", authorization());
		request.upload.addEventListener("progress",
			(e) => task.progress(e.loaded, e.total, "sending " + (e.loaded / 1048576).toFixed(0) + " MiB"));
		request.addEventListener("load", () => {
			const answer = new Response(request.responseText, {status: request.status});
			read(answer).then(resolve, reject);
		});
		for (const way of ["error", "abort", "timeout"]) request.addEventListener(way, fail);
		request.send(form);
	}).finally(() => { task.upload = null; });
}

/* ---- the view of a question ---- */

function button(id, name, label) {
	const b = ls.el("button", name, label);
	b.type = "button", b.id = id;
	return b;
}

function labelled(name, id, label, input) {
	const l = ls.el("label", name, ls.el("span", "", label), input);
	l.htmlFor = input.id = id;
	return l;
}

/* Which options of the verb have a control here. */
function ownOptions(row, table, predict) {
	const known = new Set(predict.map((o) => o.name)), without = row.without || [];
	const taken = table.filter((o) => o.type !== "refused" && !without.includes(o.name));
	if (row.lists) return taken.filter((o) => o.list).map((o) => ({...o, type: "list", choices: undefined}));
	if (row === QUESTIONS.shard)
		return [TABLES, ...taken.filter((o) => !["gpu", "gpus", "cluster", "model"].includes(o.name))];
	return row.shared ? taken.filter((o) => !known.has(o.name) || row.main.includes(o.name)) : taken;
}

/* The page around the questions: fields of the prediction, its options and lists, what is said, who wants to know of an
 * answer (answered(question)) and of a layout that is chosen (take(choice)). */
export class Question {
	constructor(name, page, table) {
		this.name = name, this.row = QUESTIONS[name], this.page = page, this.table = table, this.asked = "";
		this.controls = new Map();
		this.inputs = [];
		this.before = ""; /* the command that writes what the answer's command reads */
		this.build();
		this.task = new Task(name, (text, where) => this.say(text, where));
		at(name + "-go").addEventListener("click", () => this.ask());
	}

	build() {
		const {name, row, page} = this, line = ls.el("div", "sv-row"), more = ls.el("div", "sv-row");
		(row.files || []).forEach((label, i) => {
			const input = ls.el("input");
			input.type = "file", input.multiple = row.files.length === 1;
			this.inputs.push(input);
			line.append(labelled("sv-field sv-file", name + "-files" + (i || ""), label, input));
		});
		for (const option of ownOptions(row, this.table, page.options.predict)) {
			const c = control(option, page.lists, () => {}, name + "-");
			if (row.lists) c.input.placeholder = "unchanged";
			this.controls.set(option.name, c);
			(row.main.includes(option.name) ? line : more).append(c.element);
		}
		if (row.check) {
			const input = ls.el("input");
			input.type = "checkbox", input.id = row.check[0];
			line.append(ls.el("label", "sv-check", input, " " + row.check[1]));
		}
		line.append(button(name + "-go", "sv-go", row.go));
		const bar = ls.el("progress"), said = ls.el("span");
		bar.id = name + "-bar", said.id = name + "-said";
		bar.setAttribute("aria-label", "progress");
		const progress = ls.el("div", "sv-progress", bar, said, button(name + "-cancel", "", "Cancel"));
		progress.id = name + "-progress", progress.hidden = true;
		const task = ls.el("div", "sv-task", ls.el("p", "", row.text), line);
		if (more.children.length) task.append(ls.el("details", "", ls.el("summary", "", "More options"), more));
		task.append(progress);
		this.choices = ls.el("div", "sv-choices");
		this.choices.id = name + "-choices";
		this.take = ls.el("div", "sv-task", ls.el("h2", "", "Use a layout"), this.choices);
		this.take.hidden = true;
		this.answer = ls.el("div");
		this.answer.id = name + "-answer";
		at("view-" + name).replaceChildren(task, this.take, this.answer);
	}

	/* Says what is wrong at its own control, where it has one of that name. */
	say(text, where = "") {
		const own = this.controls.has(optionOf(where));
		markControls(this.controls, own ? where : "", own ? text : "");
		this.page.say(text, own ? "" : where);
	}

	/* The state of its own controls, as texts, and back. */
	texts() {
		return new Map([...this.controls].map(([name, c]) => [name, c.get()]).filter(([, text]) => text));
	}

	show(texts) {
		for (const [name, c] of this.controls) c.set(texts.get(name) || "");
	}

	/* The fields of the request: those of the view, then those on the left. */
	request() {
		const {row} = this, body = {}, own = Object.fromEntries(this.texts());
		const left = this.page.fields.request(), held = this.page.fields.body(() => true);
		const fixed = row.check && at(row.check[0]).checked;
		for (const option of this.table) {
			const value = (fixed && SEARCHED.has(option.name) ? held : left)[option.name];
			if (value === undefined || option.type === "refused" || !row.shared?.(option.name, own)) continue;
			body[option.name] = value;
		}
		if (left.launch && (row.lists || this.name === "plan")) body.launch = left.launch;
		for (const [name, c] of this.controls) {
			if (!own[name]) continue;
			const text = row.lists || (this.name === "plan" && name === "gpus") ? own[name].replace(/\s/g, "") : own[name];
			body[name] = row.lists && !text.includes(",") ? valueOf(this.table.find((o) => o.name === name), text)
				: valueOf(c.option, text);
		}
		return body;
	}

	files() {
		return this.inputs.flatMap((input) => [...input.files]);
	}

	/* The step of the left as a file; what it ran on goes with it. Its command stands before that of the answer, which
	 * names the file. */
	async stepOfPage(body) {
		const {page} = this, asked = page.fields.request(), graph = await post("predict?form=graph", asked);
		const said = await post("predict?form=picture", asked);
		said.reproduce = said.reproduce.replace(/^lockstep predict/, "$& --graph step.json") + "\n";
		this.before = withFiles(said, asked, page.options.predict).reproduce;
		for (const name of ["gpu", "cluster"]) if (asked[name] && !body.gpu && !body.cluster) body[name] = asked[name];
		return [new File([JSON.stringify(graph)], "step.json", {type: "application/json"})];
	}

	/* `files`: in place of those that were chosen. */
	ask(files) {
		const body = this.request(), {row, task} = this;
		if (!row.files) return this.run(() => post(this.name + "?form=report", body), body);
		this.dropped = files || (this.files().length ? null : this.dropped);
		const chosen = this.files().length && !files ? this.files() : this.dropped || [];
		this.before = "";
		if (!chosen.length && !row.step)
			return this.page.say("choose the files first, or drop them on the page");
		return this.run(async () => upload(task, chosen.length ? chosen : await this.stepOfPage(body), body), body);
	}

	run(start, body) {
		return this.task.run(start, (answer) => {
			this.asked = this.row.files ? "" : JSON.stringify(body);
			withFiles(answer, body, [TABLES, ...this.table]);
			if (this.before) answer.reproduce = this.before + answer.reproduce;
			if (this.name === "plan") this.offer(answer.result);
			window.lockstepReport(this.answer, answer);
			this.page.answered(this);
		});
	}

	/* A link that was opened asks again, where that needs no files and the answer is not there. */
	again() {
		if (!this.row.files && JSON.stringify(this.request()) !== this.asked) this.ask();
	}

	/* ", $154/h, $0.69 a step" at list prices, or "". */
	costOf(choice) {
		const cost = hourly(this.page.machines, this.page.fields.texts().get("gpu"), choice.gpus);
		return cost > 0 ? `, ${dollars(cost)}/h, ${dollars(cost * choice.step_time_s / 3600)} a step` : "";
	}

	/* The layouts of a plan, to be taken over. */
	offer(result) {
		const list = [];
		for (const choice of result.counts.flatMap((count) => count.choices)) {
			const b = button("", "sv-choice", "");
			b.removeAttribute("id");
			b.append(ls.el("b", "", ls.whole(choice.gpus) + " GPUs"), " ", choice.layout, " ",
				ls.el("span", "", ls.seconds(choice.step_time_s) + this.costOf(choice)));
			b.title = "show the prediction of this layout";
			b.addEventListener("click", () => this.page.take(choice));
			list.push(b);
		}
		this.choices.replaceChildren(...list);
		this.take.hidden = !list.length;
	}
}
