/* link.mjs: what the page asks the server when a link is opened, by the page's own code. Standard input: the option
 * table of predict (GET /api/v1/options), then one object of texts a line, as controls hold them; standard output: for
 * each the link's fragment and the body of POST /api/v1/predict, after the fragment was read back. */
import {readFileSync} from "node:fs";

globalThis.window = {lockstep: {}};
const source = readFileSync(process.argv[2], "utf8");
const {fromHash, toHash, valueOf} = await import("data:text/javascript;base64," + Buffer.from(source).toString("base64"));
const [table, ...states] = readFileSync(0, "utf8").trim().split("\n").map((line) => JSON.parse(line));
const options = new Map(table.map((option) => [option.name, option]));
for (const texts of states) {
	const link = toHash(new Map(Object.entries(texts)), "predict"), {state} = fromHash(link);
	const body = Object.fromEntries([...state].map(([name, text]) => [name, valueOf(options.get(name), text)]));
	console.log(JSON.stringify({link, body}));
}
