/* serve-box.js: what a text or files are that somebody pastes or drops: a name, a launch line, the file of a job (a script
 * or a configuration, which the server tells apart), a config.json, tables, traces. The server reads them; here is decided
 * as what. */

const TEXT_LIMIT = 1 << 20;
const HUB = /^(?:https?:\/\/)?(?:www\.)?huggingface\.co\/([\w.-]+\/[\w.-]+)/;

const NETWORK = ["model_type", "architectures", "_class_name"], SHAPE = ["hidden_size", "num_hidden_layers", "n_layer", "d_model"];
/* Keys of jobs, which may state the shape of their network too. */
const TRAINING = /batch_size|batch-size|optimizer/;
/* Whether a shell would do nothing to a line but divide it into words. Other lines go to the reader of scripts. */
const isWords = (line) => !/[$`;|&<>()]|(^|\s)#|^\w+=/.test(line.replace(/\\./g, "").replace(/'[^']*'/g, "")
	.replace(/"[^"$`]*"/g, ""));

const option = (name, text, read) => ({option: name, text, read});
const job = (text) => option("config", text, "Read as a configuration or a launch script.");

/* An object in JSON. Anything but a network, a trace or a graph is sent as a configuration; the server says what is wrong with it. */
function ofObject(value, text, files) {
	const has = (keys) => keys.some((key) => key in value);
	if (value.traceEvents || "deviceProperties" in value || Array.isArray(value.nodes))
		return {view: "explain", files, read: "Read as a trace."};
	if ("lockstep_graph" in value) return {view: "whatif", files, read: "Read as a step graph."};
	if (has(NETWORK) || has(SHAPE) && !Object.keys(value).some((key) => TRAINING.test(key)))
		return option("model", JSON.stringify(value), "Read as the config.json of a network.");
	return job(text);
}

const isList = (text) => {
	try { return Array.isArray(JSON.parse(text)); } catch { return false; }
};

function asObject(text) {
	try {
		const value = JSON.parse(text);
		return value && typeof value === "object" && !Array.isArray(value) ? value : null;
	} catch {
		return null;
	}
}

const lines = (text) => text.replace(/\\\r?\n/g, " ").split("\n").map((l) => l.trim()).filter(Boolean);

function ofName(text, lists) {
	const hub = HUB.exec(text), name = hub ? hub[1] : text;
	const small = name.toLowerCase(), find = (list) => list.find((one) => one.name.toLowerCase() === small);
	const gpu = find(lists.gpu), model = find(lists.model);
	if (gpu) return option("gpu", gpu.name, "Read as a GPU.");
	if (model) return option("model", model.name, "Read as a model.");
	if (name.includes("/")) return option("model", name, "Read as the name of a model on the Hub.");
	/* A short name, as h100: the server knows which one it means. */
	if (lists.gpu.some((one) => one.name.toLowerCase().startsWith(small))) return option("gpu", small, "Read as a GPU.");
	return option("model", name, "Read as the name of a model.");
}

function ofText(text, lists) {
	const plain = text.trim(), value = plain.startsWith("{") ? asObject(plain) : null, all = lines(plain);
	if (value) return ofObject(value, text, [new File([plain], "pasted.json", {type: "application/json"})]);
	if (!plain || isList(plain)) return null;
	if (!/\s/.test(plain)) return ofName(plain, lists);
	if (/^name,/.test(all[0]) && /(^|,)rows(,|$)/.test(all[0]))
		return {view: "shard", tables: plain, read: "Read as embedding tables."};
	const key = /^[\w."'-]+\s*:(\s|$)/;
	return all.length === 1 && isWords(all[0]) && !key.test(all[0]) ? option("launch", plain, "Read as a launch line.") : job(text);
}

/* {read, option, text}: an option of predict that this says, a launch line or the file of a job; {read, view, files | tables}:
 * a question about it; {read} alone: it was not understood. `lists`: of models and GPUs that are known. */
export async function understand(text, files, lists) {
	if (!files.length) return ofText(text, lists) || {read: "Not understood: neither a name, a launch line, a script, a "
		+ "configuration, nor JSON of a network, a trace or a step graph."};
	if (files.every((f) => f.name.endsWith(".lkrec"))) return {view: "stalls", files, read: "Read as a recording."};
	const small = files.length === 1 && files[0].size <= TEXT_LIMIT && !/\.(gz|zst|zip|tar|pb|pftrace)$/.test(files[0].name);
	const content = small ? await files[0].text() : "";
	const found = small && !content.includes("\0") ? asObject(content) ? ofObject(asObject(content), content, files)
		: /\.(sh|slurm|sbatch|ya?ml|json|toml|csv|txt)$/.test(files[0].name) ? ofText(content, lists) : null : null;
	return found || {view: "explain", files, read: files.length === 1 ? "Read as a trace." : "Read as traces."};
}
