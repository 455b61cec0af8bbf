/* table.js: tables that sort by a click on a title, filter, copy as Markdown or CSV, and are saved as CSV or JSON. A cell is a text, a number, null, or
 * [number, what people are shown]. */
(function (ls) {
	"use strict";

	const shown = (cell) => cell === null || cell === undefined ? "" : Array.isArray(cell) ? cell[1]
		: typeof cell === "boolean" ? (cell ? "yes" : "no") : String(cell);
	const raw = (cell) => Array.isArray(cell) ? cell[0] : cell;
	const collator = new Intl.Collator("en", {numeric: true, sensitivity: "base"});

	/* Numbers before texts, what is empty last. */
	function compare(a, b) {
		const x = raw(a), y = raw(b), none = (v) => v === null || v === undefined || v === "";
		if (none(x) || none(y)) return none(x) - none(y);
		if (typeof x === "number" && typeof y === "number") return x - y;
		return collator.compare(shown(a), shown(b));
	}

	ls.markdown = function (columns, rows) {
		const safe = (text) => String(text).replace(/[\\|`*\[\]<&~]/g, "\\$&").replace(/\s+/g, " ");
		const line = (cells) => "| " + cells.join(" | ") + " |\n";
		return line(columns.map((c) => safe(c.title))) + line(columns.map((c) => c.right ? "---:" : "---")) +
			rows.map((row) => line(columns.map((c, i) => safe(shown(row[i]))))).join("");
	};
	/* Keys and bare numbers; text that a spreadsheet would run gets a quote before it. */
	ls.csv = function (columns, rows) {
		const field = function (cell) {
			const value = raw(cell);
			let text = value === null || value === undefined ? "" : String(value);
			if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
			return /[",\r\n]|^ | $/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
		};
		return columns.map((c) => field(c.key || c.title)).join(",") + "\n" +
			rows.map((row) => columns.map((c, i) => field(row[i])).join(",") + "\n").join("");
	};

	/* An object for each row, its values by the keys of the columns. */
	ls.rowsAsJson = (columns, rows) => JSON.stringify(rows.map((row) => Object.fromEntries(columns.map((c, i) =>
		[c.key || c.title || "column " + (i + 1), raw(row[i]) === undefined ? null : raw(row[i])]))), null, 2) + "\n";

	/* From how many characters a text wraps; makes cards of its rows on narrow screens; takes more room; is shown by its
	 * begin until it is clicked. */
	const LONG = 28, WORDY = 40, LONGER = 90, CLAMPED = 260;
	/* Rows that are made at once, and how many make a table scroll in itself. */
	const MOST = 300, TALL = 16;
	/* From how many rows a table has a filter. */
	const FILTERED = 6;

	function cellOf(column, text) {
		const td = ls.el("td", column.right ? "ls-right" : text.length > LONGER ? "ls-long ls-longer"
			: text.length > LONG ? "ls-long" : "");
		/* Where a row is a card, each cell says what it is. */
		if (text) td.dataset.title = column.title || "";
		if (column.right || text.length <= CLAMPED) return add(td, text);
		const part = ls.el("div", "ls-clamped", text);
		part.title = "click for all of it";
		part.addEventListener("click", () => part.classList.toggle("ls-clamped"));
		return add(td, part);
	}
	function add(td, child) {
		td.append(child);
		return td;
	}

	function body(table, state) {
		const rows = state.rows.filter((row) => state.words.every((word) =>
			row.some((cell) => shown(cell).toLowerCase().includes(word))));
		if (state.by >= 0) rows.sort((a, b) => state.down * compare(a[state.by], b[state.by]));
		state.sorted = rows;
		state.filled = true;
		table.tBodies[0].replaceChildren(...rows.slice(0, state.most).map(function (row) {
			const tr = ls.el("tr");
			state.columns.forEach((c, i) => tr.append(cellOf(c, shown(row[i]))));
			if (state.pick) state.pick(tr, row);
			return tr;
		}));
	}

	/* Says how many rows of a long table stand there, and makes the others when it is asked to. */
	function moreOf(table, state) {
		const line = ls.el("p", "ls-note ls-more", state.most + " of " + state.rows.length + " rows "),
			all = ls.button("all rows", "show every row", function () {
				state.most = Infinity;
				line.remove();
				body(table, state);
			});
		line.append(all);
		return line;
	}

	/* Rows in which each of the words stands in some cell. */
	function filterOf(table, state) {
		const input = ls.el("input", "ls-filter"), said = ls.el("span", "ls-filtered");
		input.type = "search";
		input.placeholder = "filter rows";
		input.setAttribute("aria-label", "filter rows");
		said.setAttribute("role", "status");
		input.addEventListener("input", function () {
			state.words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
			body(table, state);
			said.textContent = state.words.length ? state.sorted.length + " of " + state.rows.length : "";
		});
		return [said, input];
	}

	/* The buttons of a table, and what it is saved as, among the tools of a frame. */
	ls.tableTools = function (frame, made, title) {
		frame.tools.append(...made.filter, ...made.buttons);
		ls.tableSaves(frame, made, title);
	};
	ls.tableSaves = function (frame, made, title) {
		ls.saves(frame, "CSV", () => ls.save(ls.fileName(title, "csv"), "text/csv", made.csv()));
		ls.saves(frame, "JSON", () => ls.save(ls.fileName(title, "json"), "application/json", made.json()));
	};

	/* A table of {columns, rows} with its buttons; `empty`: without its rows, which fill() then makes. pick(tr, row), if
	 * given, is called for each row that is made. */
	ls.table = function (columns, rows, empty, pick) {
		const state = {columns: columns, rows: rows, by: -1, down: 1, sorted: rows, words: [], filled: false, pick: pick,
			most: rows.length > MOST ? MOST : Infinity};
		const fill = function () {
			if (!state.filled) body(table, state);
		};
		/* Rows with long texts would be as tall as those, with most of them out of view, on narrow screens. */
		const wordy = columns.some((c, i) => !c.right && rows.slice(0, MOST).some((row) => shown(row[i]).length > WORDY));
		const table = ls.el("table", "ls-table" + (wordy ? " ls-cards" : "")), head = ls.el("tr");
		columns.forEach(function (c, i) {
			const button = ls.el("button", "ls-sort", c.title || "\u00a0");
			button.type = "button";
			button.title = "sort by " + (c.title || c.key || "this column");
			const th = ls.el("th", c.right ? "ls-right" : "", button);
			th.scope = "col";
			button.addEventListener("click", function () {
				state.down = state.by === i ? -state.down : c.right ? -1 : 1;
				state.by = i;
				for (const other of head.children) other.removeAttribute("aria-sort");
				th.setAttribute("aria-sort", state.down > 0 ? "ascending" : "descending");
				body(table, state);
			});
			head.append(th);
		});
		table.append(ls.el("thead", "", head), ls.el("tbody"));
		if (!empty) fill();
		const md = ls.button("Markdown", "copy the table as Markdown",
			() => ls.copy(ls.markdown(columns, state.sorted), md));
		const csv = ls.button("CSV", "copy the table as CSV", () => ls.copy(ls.csv(columns, state.sorted), csv));
		const box = ls.el("div", "ls-scroll" + (rows.length > TALL || wordy && rows.length > TALL / 2 ? " ls-tall" : ""),
			table);
		box.tabIndex = 0;
		return {table: state.most < Infinity ? ls.el("div", "", box, moreOf(table, state)) : box,
			filter: rows.length >= FILTERED ? filterOf(table, state) : [], buttons: [md, csv], fill: fill,
			csv: () => ls.csv(columns, state.sorted), json: () => ls.rowsAsJson(columns, state.sorted)};
	};

	/* Of a table whose rows have commands: a click on a row shows its own; the best row stands out. */
	function commandsOf(panel, chosen) {
		const place = new Map(panel.rows.map((row, i) => [row, i])), best = panel.columns.findIndex((c) => c.key === "best");
		const {before, between, after} = panel.commands, middles = [];
		/* A word that is not there is that of the command before, where both have as many. */
		let last = [];
		between.forEach(function (text, i) {
			if (text === null) return;
			const words = text.split(" ");
			if (words.length === last.length) words.forEach((word, k) => { if (!word) words[k] = last[k]; });
			last = words;
			middles[i] = words.join(" ");
		});
		const act = function (tr, row) {
			for (const other of tr.parentNode.children) other.removeAttribute("aria-selected");
			tr.setAttribute("aria-selected", "true");
			const text = before + middles[place.get(row)] + after, button = ls.button("Copy", "copy the command",
				() => ls.copy(text, button));
			chosen.replaceChildren(ls.el("div", "ls-chosen-head", ls.el("span", "", "To predict this row"), button),
				ls.el("pre", "ls-command", text));
		};
		return function (tr, row) {
			if (best >= 0 && raw(row[best]) === 1) tr.classList.add("ls-best");
			if (middles[place.get(row)] === undefined) return;
			tr.classList.add("ls-pick");
			tr.tabIndex = 0;
			tr.addEventListener("click", () => act(tr, row));
			tr.addEventListener("keydown", (event) => { if (event.key === "Enter") act(tr, row); });
		};
	}

	ls.panels.table = function (panel, box, frame) {
		const chosen = ls.el("div", "ls-chosen"), made = ls.table(panel.columns, panel.rows, false,
			panel.commands && commandsOf(panel, chosen));
		ls.tableTools(frame, made, panel.title);
		chosen.setAttribute("aria-live", "polite");
		box.append(made.table);
		if (panel.commands) box.append(chosen);
		if (panel.left_out) box.append(ls.el("p", "ls-note",
			panel.left_out + " more rows were left out of this report"));
	};
})(window.lockstep = window.lockstep || {});
