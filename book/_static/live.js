// Figures that a reader moves. `live` makes one from its sliders and a function that draws; the static picture in its
// place is for readers without JavaScript and for paper. Nothing is loaded, so it works from a file.

// An element of SVG or HTML with attributes and children.
function element(name, attributes = {}, ...children) {
  const svg = /^(svg|g|path|line|text|circle|rect)$/.test(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A figure in front of `still`, which it hides.
//   label     what the picture shows, for those who do not see it
//   sliders   [{ name, text, values, start, show }]: `values` are the stops, `show` writes one of them
//   draw      (values by name, width, height) => { shapes: elements of SVG, text: a sentence under the picture }
//   controls  further elements below the sliders
// It is drawn again when a slider moves and when its width changes. Gives the function that draws it.
function live(still, { label, sliders, draw, height = 240, controls = [] }) {
  const picture = element("svg", { role: "img", "aria-label": label });
  const sentence = element("p", { "aria-live": "polite" });
  const inputs = sliders.map(({ name, text, values, start, show }) => {
    const id = `slider-${document.querySelectorAll(".live").length}-${name}`;
    const input = element("input", { id, type: "range", min: 0, max: values.length - 1, step: 1, name });
    input.value = values.indexOf(start);
    const shown = element("output", { for: id });
    const row = element("div", { class: "slider" }, element("label", { for: id }, text), shown, input);
    return { name, values, show, input, shown, row };
  });
  const made = element("div", { class: "live" }, picture, ...inputs.map(({ row }) => row), ...controls, sentence);
  still.before(made);
  still.classList.add("still");

  const redraw = () => {
    const width = Math.max(240, made.clientWidth);
    const values = {};
    for (const { name, values: stops, show, input, shown } of inputs) {
      values[name] = stops[input.value];
      shown.textContent = show(values[name]);
      input.setAttribute("aria-valuetext", shown.textContent);
    }
    const { shapes, text } = draw(values, width, height);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.replaceChildren(...shapes);
    sentence.textContent = text;
  };
  inputs.forEach(({ input }) => input.addEventListener("input", redraw));
  new ResizeObserver(redraw).observe(made);
  redraw();
  return redraw;
}

// A curve of `f` over [from, to], as the path of an SVG; `across` and `up` give places of x and y.
function curve(f, from, to, across, up) {
  const points = [];
  for (let i = 0; i <= 240; i += 1) {
    const x = from + (to - from) * i / 240;
    points.push(`${across(x).toFixed(1)},${up(f(x)).toFixed(1)}`);
  }
  return `M${points.join("L")}`;
}

const percent = (share) => `${Math.round(100 * share)} %`;

// Two bells: the published number without Ada and with her; a game, in which the reader guesses whether she was in.
function bells(still, count) {
  const reach = 6;
  const game = { number: null, inside: false, asked: 0, right: 0, said: "" };
  let noise = 1;

  const draw = (values, width, height) => {
    noise = values.noise;
    const middle = count - 0.5;
    const base = height - 44;
    const across = (x) => (x - middle + reach) / (2 * reach) * width;
    const peak = kernel.density(0) / noise;
    const up = (y) => base - y / peak * (base - 34);
    const shapes = [];
    const worlds = [["without", count - 1, "end", "without Ada"], ["with", count, "start", "with Ada"]];
    for (const [name, mean, anchor, text] of worlds) {
      const bell = curve((x) => kernel.density((x - mean) / noise) / noise, middle - reach, middle + reach, across, up);
      shapes.push(element("path", { class: `area ${name}`, d: `${bell}L${width},${base}L0,${base}Z` }));
      shapes.push(element("path", { class: `line ${name}`, d: bell }));
      const side = anchor === "end" ? -6 : 6;
      shapes.push(element("text", { class: name, x: across(mean) + side, y: 20, "text-anchor": anchor }, text));
    }
    shapes.push(element("line", { class: "axis", x1: 0, x2: width, y1: base, y2: base }));
    for (const tick of [count - 5, count - 1, count, count + 4]) {
      const anchor = { [count - 1]: "end", [count]: "start" }[tick] ?? "middle";
      shapes.push(element("line", { class: "axis", x1: across(tick), x2: across(tick), y1: base, y2: base + 5 }));
      shapes.push(element("text", { x: across(tick), y: base + 20, "text-anchor": anchor }, String(tick)));
    }
    shapes.push(element("text", { x: width / 2, y: base + 39, "text-anchor": "middle" }, "published number"));
    if (game.number !== null) {
      const at = Math.min(width - 3, Math.max(3, across(game.number)));
      shapes.push(element("line", { class: "seen", x1: at, x2: at, y1: 28, y2: base }));
    }
    const best = (1 + kernel.gaussian({ sigma: noise }).delta(0)) / 2;
    return { shapes, text: `The best possible guess is right in ${percent(best)} of cases. ${game.said}` };
  };

  const ask = element("button", { type: "button" }, "Publish a number");
  const yes = element("button", { type: "button" }, "Ada was in");
  const no = element("button", { type: "button" }, "Ada was not in");
  const controls = [element("div", { class: "buttons" }, ask, yes, no)];
  const label = "Two bell curves, one apart: the probability of each published number without Ada and with her.";
  const values = [0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6];
  const slider = { name: "noise", text: "Noise, standard deviation", values, start: 1, show: String };
  const redraw = live(still, { label, sliders: [slider], draw, controls });

  const turn = (waiting) => {
    ask.disabled = waiting;
    yes.disabled = no.disabled = !waiting;
    redraw();
  };
  ask.addEventListener("click", () => {
    game.inside = Math.random() < 0.5;
    game.number = count - (game.inside ? 0 : 1) + noise * kernel.quantile(Math.random() || 0.5);
    game.said = `The published number is ${game.number.toFixed(1)}. Was Ada in?`;
    turn(true);
    yes.focus();
  });
  const answered = (guess) => {
    game.asked += 1;
    game.right += Number(guess === game.inside);
    const truth = game.inside ? "Ada was in" : "Ada was not in";
    game.said = `${truth}: you were ${guess === game.inside ? "right" : "wrong"}, ${game.right} of ${game.asked} so far.`;
    turn(false);
    ask.focus();
  };
  yes.addEventListener("click", () => answered(true));
  no.addEventListener("click", () => answered(false));
  turn(false);
}

// Where the book has such a figure.
document.addEventListener("DOMContentLoaded", () => {
  for (const figure of document.querySelectorAll("#fig-guarantee-drift, #fig-index-bells")) {
    bells(figure.firstElementChild, 170);
    const caption = figure.querySelector(".caption-text");
    if (figure.id === "fig-guarantee-drift") {
      caption.textContent = "Probability of each published number, with Ada and without her. The two curves are always one apart. The less noise there is, the less they overlap, and the more often an attacker can guess correctly which of the two curves produced the number.";
    }
    const invitation = " Move the noise, publish a number, and guess whether Ada was in.";
    caption.append(element("span", { class: "live-only" }, invitation));
  }
});
