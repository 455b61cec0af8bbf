/* serve.js: the page of lockstep serve: every change of a control becomes a prediction, its state stands in the
 * address. */
import {get, post, renewToken, takeTokenOf} from "./serve-api.js";
import {understand} from "./serve-box.js";
import {BEGIN, Fields, fromHash, isJob, isSource, optionOf, toHash, withFiles,
	words} from "./serve-fields.js";
import {Kept, showGlance, summary} from "./serve-compare.js";
import {Question, QUESTIONS} from "./serve-questions.js";
import {Timeline} from "./serve-timeline.js";

const ls = window.lockstep, at = (id) => document.getElementById(id);
const VIEWS = ["predict", "compare", ...Object.keys(QUESTIONS), "timeline"];
const TITLES = {predict: "Predict", compare: "Compare", timeline: "Timeline"};
const HASH_LIMIT = 16384;

let fields, table, view = "predict", kept, machines = [], timeline, lists;
const questions = new Map();

/* `cause`: the control whose change the text answers. */
function say(text, where, cause) {
	at("message").textContent = text;
	at("message").hidden = !text;
	fields?.mark(where || "", text, cause);
}

/* ---- predictions ---- */

/* A change is asked for at once, and what is on its way for an older one is ended by the server, which knows the
 * page; but while changes come faster than answers, one is let through now and then. When the picture of a change
 * stands and no other comes for a while, the rest of the report is asked for. `shown` counts pictures, for those who
 * wait for one. */
const STARVED_MS = 150, REST_MS = 120;
const live = {asked: 0, under: 0, since: 0, shown: 0, timer: 0, title: "", state: null, said: null};
/* The control that was changed last; what is refused now, and the control whose change led to it. */
const fault = {last: "", text: "", cause: ""};
const PAGE = "&page=" + [...crypto.getRandomValues(new Uint8Array(8))].map((b) => b.toString(16).padStart(2,
	"0")).join("");

/* What will come with the rest has its place from the beginning. */
function withRoom(report) {
	const panels = report.panels, pending = (title,
		wide) => ({kind: "pending", title, wide, text: "being asked \u2026"});
	if (panels[0].state === "no") panels.splice(1, 0, pending("Changes that would make it fit", true));
	else panels.splice(panels.findIndex((p) => p.kind === "range"), 0, pending("Rates 10 % lower or higher", false));
	return report;
}

function draw(report, rest) {
	const box = at("prediction");
	box.classList.remove("sv-stale");
	window.lockstepReport(box, report, rest);
	live.title = report.title;
	live.state = fields.texts();
	live.said = glanceOf(report, live.state);
	noteIgnored(report.result?.ignored || []);
	showGlance(at("glance"), live.said);
	at("glance").classList.remove("sv-stale");
	fields.showDefaults(report.result || {});
	at("keep").disabled = false;
	fault.text = fault.cause = "";
}

const glanceOf = (report, state) => summary(report, machines, state.get("gpu"),
	Number(state.get("gpus")) || report.result?.layout?.gpus);

function refused(error) {
	if (takenBack(error)) return;
	at("prediction").classList.add("sv-stale");
	at("glance").classList.add("sv-stale");
	at("keep").disabled = true;
	if (error.message !== fault.text) fault.cause = fault.last;
	fault.text = error.message;
	say(error.message, error.where, fault.cause);
	noteRefused(error.message);
}

const tell = (name) => document.dispatchEvent(new CustomEvent(name, {detail: live.shown}));

async function rest(mine, request) {
	let report, wrong;
	try { report = await post("predict?form=report" + PAGE, request); } catch (error) { wrong = error; }
	if (mine !== live.asked) return;
	if (report) draw(withFiles(report, request, table), true);
	else if (wrong) refused(wrong);
	tell("lockstep-whole");
}

async function picture() {
	const mine = live.under = live.asked, request = fields.request();
	let report, wrong;
	try { report = await post("predict?form=picture" + PAGE, request); } catch (error) { wrong = error; }
	/* An older one; the server ended it where it still ran. */
	if (mine !== live.under) return;
	if (report) draw(withRoom(withFiles(report, request, table))), say("");
	else if (wrong) refused(wrong);
	live.under = 0;
	live.shown++;
	tell("lockstep-shown");
	if (mine !== live.asked) predict();
	else live.timer = setTimeout(() => settled(mine, request, report), REST_MS);
}

/* No other change has come for a while. The browser takes a few milliseconds for a new address or title. */
function settled(mine, request, report) {
	keepState(true);
	if (!report) return;
	document.title = live.title + " \u2013 lockstep";
	rest(mine, request);
}

function predict() {
	const now = performance.now();
	live.asked++;
	clearTimeout(live.timer);
	if (!live.under) live.since = now;
	if (!live.under || now - live.since < STARVED_MS) picture();
}

/* ---- launch lines ---- */

/* The server alone reads them. A line, or the file of a job, is a question of its own: it replaces the state of the
 * controls, which then show what it states. Later choices override it. `held`: the state before, until another change, in case
 * the user takes the line back. */
const line = {asked: 0, held: null};

/* What is read of `body`, or null: it is wrong, which is said, or a newer one is read. No prediction comes between. */
async function readLine(body) {
	const mine = ++line.asked;
	live.asked++, live.under = 0;
	clearTimeout(live.timer);
	let said = null, wrong;
	try { said = await post("launch", body); } catch (error) { wrong = error; }
	if (mine !== line.asked) return null;
	if (wrong) {
		at("conflict").hidden = true;
		refused({message: wrong.message, where: "--" + Object.keys(body)[0], unread: true});
	}
	return said;
}

function noteConflict() {
	const text = fields.conflict();
	at("conflict").textContent = text;
	at("conflict").hidden = !text;
}

/* The controls were set as a whole: they take precedence over the line among them. Whether they can be asked about. */
async function predictAnew() {
	line.held = null;
	const body = fields.sourceOf(fields.texts()), said = body && await readLine(body);
	if (body && !said) return false;
	if (said) fields.take(fields.texts(), said);
	else fields.state(null);
	noteConflict();
	predict();
	return true;
}

/* Shows a state with a line, and what the line states; one that cannot be read leaves the controls as they are. */
async function takeLine(chosen) {
	const said = await readLine(fields.sourceOf(chosen));
	if (!said) return;
	fields.take(chosen, said);
	noteConflict();
	predict();
}

/* The control of a line was changed. Another line than before is a new question; one that is edited keeps what was chosen
 * over it; without one the controls are as they were before it. */
function changeLine(name, event) {
	const text = fields.texts().get(name), chosen = fields.chosen();
	const pasted = event?.inputType === "insertFromPaste" && event.data?.trim() === text?.trim();
	const another = text && isJob(name) && (pasted || !fields.sources.get(name));
	if (another) {
		fault.last = ""; /* what it lacks is said where that is chosen */
		line.held ||= new Map([...chosen].filter(([other]) => other !== name));
		takeLine(new Map([[name, text]]));
	} else if (text) takeLine(chosen);
	else {
		fields.show(line.held || chosen);
		predictAnew();
	}
}

/* The command of a choice states the whole layout. It names files, whose contents the controls send along. */
async function takeLayout(choice) {
	const said = await readLine({...fields.contents(), launch: words(choice.reproduce)});
	if (!said) return;
	fields.takeLayout(said, choice.gpus);
	line.held = null;
	noteConflict();
	select("predict");
	predict();
}

function changed(name, event) {
	fault.last = name;
	/* What the box holds may wait for a choice. */
	if (isSource(name) || !box.waiting) forgetRead();
	predictChange(name, event);
}

function predictChange(name, event) {
	if (isSource(name)) {
		changeLine(name, event);
		return;
	}
	line.held = null;
	noteConflict();
	predict();
}

/* ---- the address ---- */

let address = location.hash; /* what the page shows or wrote last */

/* `step`: the browser can go back from the change. */
function keepState(step) {
	const question = questions.get(view);
	const hash = toHash(fields.texts(), view, kept.texts(), question?.texts(), question?.asked);
	/* The browser is on its way to another address: what the controls say until it is shown is no new step, which
	 * would end the way forward. */
	if (location.hash !== address) return;
	/* A config that is too large for an address is left out of it. */
	if (hash.length > HASH_LIMIT || hash === location.hash) return;
	if (step && location.hash) history.pushState(null, "", hash);
	else history.replaceState(null, "", hash);
	address = location.hash;
}

async function showState() {
	address = location.hash;
	forgetRead();
	fault.last = "";
	const from = fromHash(location.hash), known = VIEWS.includes(from.view) ? from.view : "predict";
	fields.show(from.state);
	kept.take(from.kept, saidOf);
	questions.get(known)?.show(from.own);
	select(known);
	if (await predictAnew() && from.asked && view === known) questions.get(known)?.again();
}

/* What a prediction of a kept state says; null: it is refused. */
async function saidOf(state) {
	try {
		return glanceOf(await post("predict?form=picture", fields.requestOf(state)), state);
	} catch {
		return null;
	}
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
	if (name === "timeline") timeline.look(fields.request());
	say("");
}

function makeTab(v) {
	const tab = ls.el("button", "", TITLES[v] || QUESTIONS[v].title);
	tab.type = "button", tab.id = "tab-" + v;
	tab.setAttribute("role", "tab");
	tab.setAttribute("aria-controls", "view-" + v);
	tab.addEventListener("click", () => { select(v); keepState(true); });
	tab.addEventListener("keydown", (event) => {
		const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
		if (!step) return;
		select(VIEWS[(VIEWS.indexOf(v) + step + VIEWS.length) % VIEWS.length], true);
		keepState(true);
	});
	at("tabs").append(tab);
	if (at("view-" + v)) return;
	const panel = ls.el("div");
	panel.id = "view-" + v, panel.hidden = true;
	panel.setAttribute("role", "tabpanel");
	panel.setAttribute("aria-labelledby", tab.id);
	at("views").append(panel);
}

/* ---- the box: whatever is pasted or dropped ---- */

/* What stands below the box: how the last thing was read, and what of it does not act or is wrong. */
const box = {read: "", waiting: false, option: "", before: null, begin: at("box-said").textContent};

function noteIgnored(ignored) {
	box.waiting = false;
	if (!box.read) return;
	at("box-said").classList.remove("sv-wrong");
	at("box-said").textContent = box.read + (ignored.length ? ` Not understood, or without effect: ${ignored.join("; ")}.` : "");
}

function noteRead(read) {
	box.read = read;
	at("box-said").textContent = read;
	at("box-said").classList.remove("sv-wrong");
}

/* The answer to what the box holds. */
function noteRefused(text) {
	if (!box.waiting) return;
	at("box-said").textContent = box.read.replace(/\.$/, ": ") + text;
	at("box-said").classList.add("sv-wrong");
}

/* What the box holds is itself wrong, and not a combination with the other controls, which then stay as they were. A job
 * that can be read stays, whatever is asked about it: its network or its GPUs may be missing. */
function takenBack(error) {
	const where = optionOf(String(error.where));
	const wrong = isSource(box.option) ? error.unread : where === box.option || !fields.controls.has(where);
	if (!box.waiting || !wrong) return false;
	noteRefused(error.message);
	box.read = "", box.waiting = false, line.held = null;
	fields.show(box.before);
	predictAnew();
	return true;
}

/* Something else was changed since. */
function forgetRead() {
	noteRead("");
	box.waiting = false;
	at("box-said").textContent = box.begin;
}

/* The file of a job or a launch line is a question of its own. A name is a choice like one of its control; that of a network
 * takes the place of a job that has one. */
function takeOption(name, text) {
	const chosen = fields.chosen(), job = [...chosen.keys()].some(isSource);
	box.option = name, box.before = fields.texts();
	select("predict");
	fault.last = "", box.waiting = true;
	if (isSource(name)) {
		line.held ||= chosen;
		takeLine(new Map([[name, text]]));
	} else if (name === "model" && job && !fields.lacksNetwork()) {
		for (const other of [...chosen.keys()]) if (isSource(other)) chosen.delete(other);
		fields.show(chosen.set(name, text));
		predictAnew();
	} else {
		fields.show(fields.texts().set(name, text));
		predictChange(name);
	}
}

async function take(text, files) {
	const found = await understand(text, files, lists);
	noteRead(found.read);
	if (found.option) takeOption(found.option, found.text);
	else if (found.view) {
		select(found.view);
		keepState(true);
		if (found.tables) questions.get(found.view).show(new Map([["tables", found.tables]]));
		questions.get(found.view).ask(found.files);
	} else at("box-said").classList.add("sv-wrong");
}

function makeBox() {
	const takeBox = () => { if (at("box").value.trim()) take(at("box").value, []); };
	at("box-go").addEventListener("click", takeBox);
	at("box").addEventListener("paste", () => setTimeout(takeBox));
	at("box").addEventListener("keydown", (event) => {
		if (event.key !== "Enter" || event.shiftKey) return;
		event.preventDefault();
		takeBox();
	});
	at("box-choose").addEventListener("click", () => at("box-files").click());
	at("box-files").addEventListener("change", () => {
		if (at("box-files").files.length) take("", [...at("box-files").files]);
		at("box-files").value = "";
	});
	document.addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("sv-over");
		});
	document.addEventListener("dragleave", (event) => {
		if (!event.relatedTarget) document.body.classList.remove("sv-over");
	});
	document.addEventListener("drop", (event) => {
		event.preventDefault();
		document.body.classList.remove("sv-over");
		if (event.dataTransfer.files.length) take("", [...event.dataTransfer.files]);
	});
}

/* ---- the beginning ---- */

async function begin() {
	const [model, gpu, options, offers] = await Promise.all([get("models"), get("gpus"), get("options"), get("machines")]);
	machines = offers.rows;
	lists = {model: model.rows, gpu: gpu.rows};
	at("token-form").hidden = true;
	at("main-fields").replaceChildren(), at("more-fields").replaceChildren();
	table = options.predict;
	fields = new Fields(table, lists, at("main-fields"), at("more-fields"), changed);
	kept ||= new Kept((state) => {
		fields.show(state);
		select("predict");
		keepState();
		predictAnew();
	}, () => keepState());
	timeline ||= new Timeline(at("view-timeline"), say);
	const page = {fields, options, lists, machines, say, take: takeLayout, answered: () => keepState(true)};
	for (const name of Object.keys(QUESTIONS)) questions.set(name, new Question(name, page, options[name] || options.predict));
	showState();
}

/* Without the token of this run the page asks for it, and then shows what the address holds. */
function beginAgain() {
	begin().catch((error) => {
		say(error.message);
		at("token-form").hidden = error.status !== 401;
	});
}

at("controls").addEventListener("submit", (event) => event.preventDefault());
at("copy-link").addEventListener("click", () => {
	keepState();
	ls.copy(location.href, at("copy-link"));
});
at("keep").addEventListener("click", () => {
	const fresh = kept.keep(live.state, live.said);
	say("");
	ls.tellFor(at("keep"), fresh ? "Kept" : "Kept already");
});
at("to-answer").addEventListener("click", () => {
	at("tab-" + view).focus({preventScroll: true});
	document.querySelector(".sv-answers").scrollIntoView();
});
addEventListener("pagehide", () => { if (fields) keepState(); });
at("reset").addEventListener("click", () => {
	fields.show(new Map(Object.entries(BEGIN)));
	forgetRead();
	fault.last = "";
	select("predict");
	keepState(true);
	predictAnew();
});
at("token-form").addEventListener("submit", (event) => {
	event.preventDefault();
	if (takeTokenOf(at("token").value)) say(""), beginAgain();
	else say("A token has 32 digits, 0 to 9 and a to f.");
});
document.addEventListener("lockstep-shown", () => { if (view === "timeline") timeline.look(fields.request()); });
new ResizeObserver(() => {
	document.documentElement.style.setProperty("--sv-top", at("glance").parentNode.offsetHeight + "px");
}).observe(at("glance").parentNode);
VIEWS.forEach(makeTab);
makeBox();
addEventListener("hashchange", () => {
	renewToken();
	if (fields) showState();
	else beginAgain();
});
beginAgain();
