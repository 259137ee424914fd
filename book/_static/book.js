// What the theme leaves to wish for readers without a mouse or with a narrow window; nothing is loaded from elsewhere.

// Formulas are measured once the letters around them have their face; before, they come out a fifth too large.
if (window.MathJax) {
  const faces = () => document.fonts.load('1em "Source Serif"').catch(() => null);
  MathJax.startup = { pageReady: () => faces().then(() => MathJax.startup.defaultPageReady()) };
}

const SCROLLABLE =
  "main :is(.output, .cell_output, .pst-scrollable-table-container, figure, div.math, mjx-container, pre, .bd-sidebar-secondary)";
const PRINTED = "main :is(.cell_output, .highlight-text) pre";

// Whatever scrolls inside the page can be reached by the keyboard and has a name; `scrolls` lets the style say so.
function nameWhatScrolls() {
  for (const image of document.querySelectorAll("main figure img")) {
    image.classList.toggle("wide", parseFloat(image.style.width) > 700 && !image.closest("picture")); // not shrunk to a phone
  }
  for (const formula of document.querySelectorAll("main mjx-container")) {
    const own = formula.hasAttribute("display"); // on lines of its own
    const around = own ? formula : formula.closest("p, li, dd, td, th, figcaption, caption, h1, h2, h3");
    formula.classList.remove("wide");
    formula.style.zoom = 1;
    const width = own ? formula.querySelector("mjx-math")?.getBoundingClientRect().width : formula.offsetWidth;
    const needed = around && width ? around.clientWidth / width : 1;
    if (needed < 1) formula.style.zoom = Math.max(0.75, 0.99 * needed); // a little smaller, else it scrolls
    formula.classList.toggle("wide", !own && needed < 0.75);
  }
  for (const text of document.querySelectorAll(PRINTED)) {
    text.classList.toggle("sentences", !/^ |\S {2}/m.test(text.textContent)); // neither indents nor columns
  }
  for (const part of document.querySelectorAll(SCROLLABLE)) {
    const style = getComputedStyle(part);
    const wide = () => /auto|scroll/.test(style.overflowX) && part.scrollWidth > part.clientWidth + 1;
    part.classList.remove("narrowed", "scrolls", "scrolls-down"); // what they change decides nothing
    part.classList.toggle("narrowed", wide());
    const sideways = wide();
    const down = /auto|scroll/.test(style.overflowY) && part.scrollHeight > part.clientHeight + 1;
    part.classList.toggle("scrolls", sideways && (part.matches(PRINTED) || Boolean(part.querySelector("table, img"))));
    part.classList.toggle("scrolls-down", down && part.matches(".cell_output"));
    if (sideways || down) {
      const caption = part.querySelector("caption, figcaption")?.textContent.trim();
      const kinds = { "div.math, mjx-container": "formula", pre: "text", ".bd-sidebar-secondary": "contents" };
      const kind = Object.entries(kinds).find(([selector]) => part.matches(selector))?.[1] ?? "output";
      part.tabIndex = 0;
      part.setAttribute("role", "group");
      part.setAttribute("aria-label", (caption || `${kind} that scrolls`).slice(0, 120));
    } else if (part.getAttribute("role") === "group") {
      ["tabindex", "role", "aria-label"].forEach((name) => part.removeAttribute(name));
    }
  }
}

// Inverted for the dark, an orange fill is brown and a pale one nearly black: a gamma lifts both, which no function of CSS does.
function liftDarkPictures() {
  const gamma = ["R", "G", "B"].map((channel) => `<feFunc${channel} type="gamma" exponent="0.7"/>`).join("");
  const filter = `<filter id="lift" color-interpolation-filters="sRGB"><feComponentTransfer>${gamma}</feComponentTransfer></filter>`;
  document.body.insertAdjacentHTML("beforeend", `<svg width="0" height="0" style="position: absolute" aria-hidden="true">${filter}</svg>`);
  document.documentElement.style.setProperty("--lift", 'url("#lift")');
}

// Lists of the list of modules stand within its entries.
function nestLists() {
  document.querySelectorAll("main ul > ul").forEach((list) => list.previousElementSibling?.append(list));
}

// The arrows that unfold the contents say what they unfold.
function nameArrows() {
  for (const arrow of document.querySelectorAll(".bd-links summary")) {
    const page = arrow.closest("li").querySelector("a").textContent.trim();
    arrow.setAttribute("aria-label", `Pages of ${page}`);
  }
}

// What a question says besides its subject.
const FILLERS = new Set(
  "an any can could do does did from get give have how i me mean means much many my need our should tell use used using we what when which who why would you your"
    .split(" "));

const plain = (page) => Search._index.titles[page].replace(/<.*>/, ""); // without the number of the chapter

// Sections, glossary terms and names for a question: those come first whose titles have its rarest words. A page need not
// have all words, as in the search of Sphinx, and equal hits are not in the order of the alphabet.
function answers(question) {
  const index = Search._index, stemmer = new Stemmer();
  const stems = (text) => splitQuery(text.toLowerCase())
    .filter((word) => !stopwords.includes(word) && !FILLERS.has(word)).map((word) => stemmer.stemWord(word));
  const asked = [...new Set(stems(question))];
  const pages = new Map(asked.map((stem) => [stem, new Set([index.terms[stem] ?? [], index.titleterms[stem] ?? []].flat())]));
  const weights = new Map(asked.map((stem) => [stem, Math.log(1 + index.filenames.length / (1 + pages.get(stem).size))]));
  const total = [...weights.values()].reduce((sum, weight) => sum + weight, 0);
  const share = (has) => asked.reduce((sum, stem) => sum + (has(stem) ? weights.get(stem) : 0), 0) / total;
  const candidates = [
    ...Object.entries(index.alltitles).map(([title, places]) => [title, places, 1]),
    ...Object.entries(index.indexentries) // terms of the glossary
      .map(([title, places]) => [title, places.filter(([, anchor]) => anchor.startsWith("term-")), 1.1]),
    ...Object.entries(index.objects).flatMap(([module, all]) => all
      .filter(([, , , anchor]) => anchor !== "-").map(([page, , , anchor, name]) => [name, [[page, anchor || (module ? `${module}.${name}` : name)]], 0.8])),
  ];
  const found = [];
  for (const [title, places, kind] of candidates) {
    const words = stems(title.replaceAll(/\\\(.*?\\\)/g, ""));
    const named = share((stem) => words.some((word) => word === stem || (stem.length > 2 && word.startsWith(stem))));
    for (const [page, anchor] of words.length ? places : []) {
      if (anchor === null && title !== plain(page)) continue; // the title of a box
      const whole = anchor === null ? 1.1 : 1; // the page itself, rather than a section of it
      const aside = /\/(api|evidence|corrections)\//.test(index.docnames[page]) ? 0.8 : 1;
      const near = share((stem) => pages.get(stem).has(page));
      const score = aside * (kind * whole * named * (0.8 + 0.2 / words.length) + 0.4 * near);
      if (named || (anchor === null && near)) found.push({ page, anchor, title, score });
    }
  }
  return found.sort((one, other) => other.score - one.score);
}

// Pages for the words of the search field as they are typed: Enter opens the first, the arrows go to the others.
function searchWhileTyping() {
  const forms = document.querySelectorAll("form.bd-search"); // in a dialog; the page of search has its own below
  const field = forms[forms.length - 1]?.elements.q;
  if (!field || typeof Search === "undefined" || !Search.hasIndex) return; // Enter then leads to the page of search
  const list = Object.assign(document.createElement("ol"), { id: "found" });
  list.setAttribute("aria-live", "polite");
  field.form.after(list);
  const links = () => [...list.querySelectorAll("a")];
  const find = () => {
    const words = field.value.trim();
    const found = words && Search.hasIndex() ? answers(words) : [];
    list.replaceChildren(...found.slice(0, 10).map(({ page, anchor, title }) => {
      const link = document.createElement("a"), { docnames } = Search._index;
      const end = DOCUMENTATION_OPTIONS.LINK_SUFFIX + (anchor === null ? "" : `#${anchor}`);
      link.href = document.documentElement.dataset.content_root + docnames[page] + end;
      link.textContent = title.trim() + (anchor === null ? "" : ` (${plain(page)})`);
      const item = document.createElement("li");
      item.append(link);
      return item;
    }));
  };
  field.addEventListener("input", find);
  field.form.parentElement.addEventListener("keydown", (event) => {
    const at = links().indexOf(document.activeElement); // -1: the field
    if (event.key === "Enter" && document.activeElement === field) {
      find();
      if (links().length) event.preventDefault();
      links()[0]?.click();
    } else if (/Arrow(Down|Up)/.test(event.key) && (at >= 0 || document.activeElement === field)) {
      event.preventDefault();
      const next = at + (event.key === "ArrowDown" ? 1 : -1);
      (next < 0 ? field : links()[Math.min(next, links().length - 1)])?.focus();
    }
  });
}

// A notebook that is downloaded installs the wheel of the site that it comes from, whose address only the browser knows.
function nameWheel() {
  const link = document.querySelector("a.btn-download-source-button");
  if (!link || location.protocol === "file:") return;
  link.addEventListener("click", async (event) => {
    event.preventDefault();
    const folder = new URL(`${document.documentElement.dataset.content_root}_static/`, location).href;
    const text = await (await fetch(link.href)).text();
    const named = text.replace(/(%pip install [^"]*")(dpnotes-[^["]+)\[book\]/, `$1dpnotes[book] @ ${folder}$2`);
    const saved = document.createElement("a");
    saved.href = URL.createObjectURL(new Blob([named], { type: "application/x-ipynb+json" }));
    saved.download = link.href.split("/").pop();
    saved.click();
  });
}

// A box under each exercise that asks for numbers; what was right is kept in this browser.
function askInPage() {
  const given = document.getElementById("given-exercises");
  if (!given) return;
  const near = (found, value) => value === null || Math.abs(found - value) <= 0.01 * Math.abs(value);
  for (const [name, [right, wrong]] of Object.entries(JSON.parse(given.textContent))) {
    const code = [...document.querySelectorAll("main p > strong code")].find((each) => each.textContent === name);
    if (!code) continue;
    const field = Object.assign(document.createElement("input"), { inputMode: "text", autocomplete: "off" });
    const said = Object.assign(document.createElement("output"), { ariaLive: "polite" });
    const label = document.createElement("label");
    label.append(right.length === 1 ? "Your answer " : `Your answer, ${right.length} numbers with spaces between `, field);
    const row = Object.assign(document.createElement("p"), { className: "answer" });
    row.append(label, " ", said);
    code.closest("p").after(row);
    const passed = "\u2713 right";
    try {
      if (localStorage.getItem(`exercise ${name}`)) said.textContent = passed;
    } catch { /* a browser may keep nothing */ }
    field.addEventListener("change", () => {
      const found = field.value.trim().split(/[\s;]+/).map(Number);
      const fits = (values) => values.every((value, i) => near(found[i], value));
      if (found.length !== right.length || found.some(Number.isNaN)) {
        said.textContent = right.length === 1 ? "one number is asked for" : `${right.length} numbers are asked for`;
      } else if (fits(right)) {
        said.textContent = passed;
        try {
          localStorage.setItem(`exercise ${name}`, field.value);
        } catch { /* as above */ }
      } else {
        said.textContent = wrong.find(([, values]) => fits(values))?.[0] ?? "not yet; 1 % off would pass";
      }
    });
  }
}

window.addEventListener("load", () => {
  let asked = 0;
  const look = () => {
    cancelAnimationFrame(asked);
    asked = requestAnimationFrame(nameWhatScrolls);
  };
  liftDarkPictures();
  nestLists();
  nameArrows();
  searchWhileTyping();
  askInPage();
  nameWheel();
  look();
  window.MathJax?.startup?.promise?.then(look);
  const sizes = new ResizeObserver(look);
  document.querySelectorAll("main, main table, .bd-sidebar-secondary > *").forEach((part) => sizes.observe(part));
  document.addEventListener("toggle", look, true); // folded cells, once they are open
});
