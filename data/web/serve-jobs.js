/* serve-jobs.js: plans and explanations: asked for with a button, followed, cancelled, shown. */
import {authorization, get, post, read, Refusal, remove} from "./serve-api.js";

const ls = window.lockstep, at = (id) => document.getElementById(id);
const POLL_MS = 150;

/* A job at a time in a view: its bar, its words, its button. */
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
		at(this.name + "-go").disabled = on;
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
		if (job.state === "waiting") this.progress(0, 0, "waiting for others");
		else if (job.progress) this.progress(job.progress.done, job.progress.all,
			job.progress.done.toLocaleString() + " of " + job.progress.all.toLocaleString() + " layouts for "
				+ job.progress.gpus.toLocaleString() + " GPUs");
		else this.progress(0, 0, "at work");
	}

	async cancel() {
		this.cancelled = true;
		if (this.upload) this.upload.abort();
		if (this.id) await remove("jobs/" + this.id).catch(() => {});
		this.say("cancelled");
	}
}

/* ---- plan ---- */

/* The fields of a plan, from those of the prediction: what plan searches is left out, or held where that is wanted. */
function planRequest(fields, table) {
	const searched = new Set(["tp", "pp", "vp", "cp", "ep", "etp", "mbs", "schedule", "zero", "recompute", "bucket",
		"stack"]);
	const body = {}, asked = fields.request(), held = at("plan-fixed").checked ? fields.body(() => true) : {};
	for (const option of table) {
		const value = (searched.has(option.name) ? held : asked)[option.name];
		if (value === undefined || option.type === "refused") continue;
		body[option.name] = option.type === "text" && typeof value === "number" ? String(value) : value;
	}
	if (asked.launch) body.launch = asked.launch;
	if (at("plan-gpus").value.trim()) body.gpus = at("plan-gpus").value.replace(/\s/g, "");
	if (at("plan-top").value) body.top = Number(at("plan-top").value);
	return body;
}

function choices(result, take) {
	const list = [];
	for (const count of result.counts)
		for (const choice of count.choices) {
			const button = ls.el("button", "sv-choice", ls.el("b", "", choice.gpus.toLocaleString() + " GPUs"), " ",
				choice.layout, " ",
				ls.el("span", "", choice.step_time_s.toPrecision(3) + " s"));
			button.type = "button";
			button.title = "show the prediction of this layout";
			button.addEventListener("click", () => take(choice));
			list.push(button);
		}
	return list;
}

/* fields: of the prediction; take(choice): its layout is to be shown there. */
export function makePlan(fields, table, say, take) {
	const task = new Task("plan", say);
	const show = (answer) => {
		const found = choices(answer.result, take);
		at("plan-choices").replaceChildren(...found);
		at("plan-take").hidden = !found.length;
		window.lockstepReport(at("plan"), answer);
	};
	at("plan-go").addEventListener("click", () => task.run(() => post("plan?form=report", planRequest(fields, table)),
		show));
}

/* ---- explain ---- */

/* fetch tells nothing of how far an upload is. */
function upload(task, files, options) {
	const form = new FormData(), request = task.upload = new XMLHttpRequest();
	form.append("options", JSON.stringify(options));
	for (const file of files) form.append("traces", file, file.name);
	return new Promise((resolve, reject) => {
		const lost = {text: "the traces could not be sent; are they larger than the server takes?", where: "body"};
		const fail = () => reject(new Refusal(lost, 0));
		request.open("POST", "api/v1/explain?form=report");
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

/* Gives explain(files), for files that are dropped. */
export function makeExplain(say) {
	const task = new Task("explain", say);
	const show = (answer) => window.lockstepReport(at("explanation"), answer);
	const explain = (files) => {
		const options = {};
		if (at("explain-steps").value.trim()) options.steps = at("explain-steps").value.trim();
		if (at("explain-top").value) options.top = Number(at("explain-top").value);
		if (files.length) task.run(() => upload(task, files, options), show);
		else say("choose the traces first, or drop them on the page");
	};
	let last = [];
	at("explain-files").addEventListener("change", () => { last = [...at("explain-files").files]; });
	at("explain-go").addEventListener("click", () => explain(last));
	return (files) => { last = files; explain(files); };
}
