/* table.js: tables that sort by a click on a title and copy as Markdown or CSV. A cell is a text, a number, null, or
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

	/* Long texts wrap, short ones do not. */
	const cellOf = (column, text) => ls.el("td", column.right ? "ls-right" : text.length > 28 ? "ls-long" : "", text);

	function body(table, state) {
		const rows = state.rows.slice();
		if (state.by >= 0) rows.sort((a, b) => state.down * compare(a[state.by], b[state.by]));
		state.sorted = rows;
		state.filled = true;
		table.tBodies[0].replaceChildren(...rows.map(function (row) {
			const tr = ls.el("tr");
			state.columns.forEach((c, i) => tr.append(cellOf(c, shown(row[i]))));
			return tr;
		}));
	}

	/* A table of {columns, rows} with its buttons; `empty`: without its rows, which fill() then makes. */
	ls.table = function (columns, rows, empty) {
		const state = {columns: columns, rows: rows, by: -1, down: 1, sorted: rows, filled: false};
		const fill = function () {
			if (!state.filled) body(table, state);
		};
		const table = ls.el("table", "ls-table"), head = ls.el("tr");
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
		return {table: ls.el("div", "ls-scroll", table), buttons: [md, csv], fill: fill};
	};

	ls.panels.table = function (panel, box, frame) {
		const made = ls.table(panel.columns, panel.rows);
		frame.tools.append(...made.buttons);
		box.append(made.table);
		if (panel.left_out) box.append(ls.el("p", "ls-note",
			panel.left_out + " more rows were left out of this report"));
	};
})(window.lockstep = window.lockstep || {});
