/* serve.js: the page of lockstep serve: every change of a control becomes a prediction, its state stands in the address. */
import {get, post, renewToken} from "./serve-api.js";
import {BEGIN, Fields, fromHash, toHash} from "./serve-fields.js";
import {makeExplain, makePlan} from "./serve-jobs.js";

const ls = window.lockstep, at = (id) => document.getElementById(id);
const VIEWS = ["predict", "plan", "explain"];
const HASH_LIMIT = 16384, CONFIG_LIMIT = 1 << 20;

let fields, view = "predict", explain;

function say(text, where) {
	at("message").textContent = text;
	at("message").hidden = !text;
	fields?.mark(where || "");
}

/* ---- predictions ---- */

/* One question is under way; a change meanwhile is asked for when it is answered, the last one alone. `shown` counts
 * pictures, for those who wait for one. */
const live = {asked: 0, under: false, shown: 0};

function draw(report) {
	const box = at("prediction");
	/* The page keeps its place while the panels get their sizes. */
	box.style.minHeight = box.offsetHeight + "px";
	box.classList.remove("sv-stale");
	window.lockstepReport(box, report);
	document.title = report.title + " \u2013 lockstep";
	requestAnimationFrame(() => requestAnimationFrame(() => { box.style.minHeight = ""; }));
}

async function predict() {
	live.asked++;
	if (live.under) return;
	live.under = true;
	for (let mine = 0; mine !== live.asked;) {
		mine = live.asked;
		try {
			draw(await post("predict?form=report", fields.request()));
			say("");
		} catch (error) {
			at("prediction").classList.add("sv-stale");
			say(error.message, error.where);
		}
		live.shown++;
		document.dispatchEvent(new CustomEvent("lockstep-shown", {detail: live.shown}));
	}
	live.under = false;
}

/* ---- the address ---- */

function keepState() {
	const hash = toHash(fields.texts(), view);
	/* A config that is too large for an address is left out of it. */
	if (hash.length <= HASH_LIMIT) history.replaceState(null, "", hash);
}

function changed() {
	keepState();
	predict();
}

function showState() {
	const from = fromHash(location.hash);
	fields.show(from.state);
	select(VIEWS.includes(from.view) ? from.view : "predict");
	keepState();
	predict();
}

/* ---- views ---- */

function select(name, focus) {
	view = name;
	for (const v of VIEWS) {
		const tab = at("tab-" + v);
		tab.setAttribute("aria-selected", v === name);
		tab.tabIndex = v === name ? 0 : -1;
		at("view-" + v).hidden = v !== name;
		if (v === name && focus) tab.focus();
	}
	at("plan-gpus").placeholder = fields.texts().get("gpus") || "64,128,256";
	say("");
}

function makeTabs() {
	for (const v of VIEWS) {
		at("tab-" + v).addEventListener("click", () => { select(v); keepState(); });
		at("tab-" + v).addEventListener("keydown", (event) => {
			const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
			if (!step) return;
			select(VIEWS[(VIEWS.indexOf(v) + step + VIEWS.length) % VIEWS.length], true);
			keepState();
		});
	}
}

/* ---- files ---- */

/* A config of a model: a small JSON object that is no trace. Its text on one line, or null. */
async function asConfig(file) {
	if (file.size > CONFIG_LIMIT) return null;
	try {
		const content = JSON.parse(await file.text());
		const trace = Array.isArray(content) || typeof content !== "object" || !content || content.traceEvents || content.nodes;
		return trace ? null : JSON.stringify(content);
	} catch {
		return null;
	}
}

async function takeFiles(files) {
	const config = files.length === 1 ? await asConfig(files[0]) : null;
	if (config) {
		const state = fields.texts();
		state.set("model", config);
		fields.show(state);
		select("predict");
		changed();
	} else if (files.length) {
		select("explain");
		keepState();
		explain(files);
	}
}

function makeDrop() {
	document.addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("sv-over"); });
	document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("sv-over"); });
	document.addEventListener("drop", (event) => {
		event.preventDefault();
		document.body.classList.remove("sv-over");
		takeFiles([...event.dataTransfer.files]);
	});
}

/* ---- the beginning ---- */

async function begin() {
	const [model, gpu, options] = await Promise.all([get("models"), get("gpus"), get("options")]);
	at("main-fields").replaceChildren(), at("more-fields").replaceChildren();
	fields = new Fields(options.predict, {model, gpu}, at("main-fields"), at("more-fields"), changed);
	explain = makeExplain(say);
	makePlan(fields, options.plan, say, (state) => { fields.show(state); select("predict"); changed(); });
	showState();
}

at("controls").addEventListener("submit", (event) => event.preventDefault());
at("copy-link").addEventListener("click", () => ls.copy(location.href, at("copy-link")));
at("reset").addEventListener("click", () => { fields.show(new Map(Object.entries(BEGIN))); select("predict"); changed(); });
makeTabs();
makeDrop();
addEventListener("hashchange", () => {
	renewToken();
	if (fields) showState();
	else begin().catch((error) => say(error.message));
});
begin().catch((error) => say(error.message));
