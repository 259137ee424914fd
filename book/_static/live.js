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
//   draw      (values by name, width) => { shapes: elements of SVG, height, text: a sentence under the picture }
//   controls  further elements below the sliders
//   groups    { look: name }: sliders with this `group` are together, in its colour, with a box that hides it; `draw` is
//             given the set `hidden`, and the address of the page keeps what was chosen
// It is drawn again when a slider moves and when its width changes. Gives the function that draws it.
function live(still, { label, sliders, draw, controls = [], groups = {} }) {
  const kept = new URLSearchParams(Object.keys(groups).length ? location.hash.slice(1) : "");
  const picture = element("svg", { role: "img", "aria-label": label });
  const sentence = element("p", { "aria-live": "polite" });
  const boxes = Object.entries(groups).map(([look, name]) => {
    const box = element("input", { type: "checkbox" });
    box.checked = kept.get("hidden")?.split(" ").includes(look) !== true;
    return { look, box, rows: element("fieldset", { class: look }, element("legend", {}, element("label", {}, box, ` ${name}`))) };
  });
  const inputs = sliders.map(({ name, text, values, start, group, show = String }) => {
    const id = `slider-${document.querySelectorAll(".live").length}-${name}`;
    const input = element("input", { id, type: "range", min: 0, max: values.length - 1, step: 1, name });
    const place = values.indexOf(Number(kept.get(name) ?? start));
    input.value = place >= 0 ? place : values.indexOf(start);
    const shown = element("output", { for: id });
    const row = element("div", { class: "slider" }, element("label", { for: id }, text), shown, input);
    boxes.find(({ look }) => look === group)?.rows.append(row);
    return { name, values, show, input, shown, row, group };
  });
  const alone = inputs.filter(({ group }) => !group).map(({ row }) => row);
  const made = element("div", { class: "live" }, picture, ...alone, ...boxes.map(({ rows }) => rows), ...controls, sentence);
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
    const hidden = new Set(boxes.filter(({ box }) => !box.checked).map(({ look }) => look));
    const { shapes, height, text } = draw(values, width, hidden);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.replaceChildren(...shapes);
    sentence.textContent = text;
  };
  const keep = () => {
    redraw();
    if (!boxes.length) return;
    const chosen = new URLSearchParams(inputs.map(({ name, values, input }) => [name, values[input.value]]));
    const hidden = boxes.filter(({ box }) => !box.checked).map(({ look }) => look);
    if (hidden.length) chosen.set("hidden", hidden.join(" "));
    history.replaceState(null, "", `#${chosen}`);
  };
  [...inputs.map(({ input }) => input), ...boxes.map(({ box }) => box)].forEach((input) => input.addEventListener("input", keep));
  new ResizeObserver(redraw).observe(made);
  redraw();
  return redraw;
}

// ---- parts of a picture

const line = (x1, y1, x2, y2, look = "axis") => element("line", { class: look, x1, y1, x2, y2 });

const words = (text, x, y, anchor = "middle", look = "") =>
  element("text", { class: look, x, y, "text-anchor": anchor }, text);

const moved = (x, y, shapes) => element("g", { transform: `translate(${x} ${y})` }, ...shapes);

// Points [x, f(x)] over [from, to].
function samples(f, from, to, log = false) {
  return Array.from({ length: 241 }, (_, i) => {
    const x = log ? from * (to / from) ** (i / 240) : from + (to - from) * i / 240;
    return [x, f(x)];
  });
}

// The path of an SVG through points; `across` and `up` give places of x and y.
const path = (points, across, up) => `M${points.map(([x, y]) => `${across(x).toFixed(1)},${up(y).toFixed(1)}`).join("L")}`;

// The function through some points, straight between them on two logarithmic axes.
function through(xs, ys) {
  return (x) => {
    const next = xs.findIndex((each) => each >= x * (1 - 1e-9));
    const i = next < 0 ? xs.length - 2 : Math.max(0, next - 1);
    return ys[i] * (ys[i + 1] / ys[i]) ** (Math.log(x / xs[i]) / Math.log(xs[i + 1] / xs[i]));
  };
}

// Curves over two axes, each as far as it is within them, with its name at its end.
//   x, y     { label, from, to, log, ticks, show }
//   curves   [{ name, look, f, end, before, below }]: `look` is a class of custom.css; the name is at the x `end`, or at the
//            right, and is before it in the right half or where it says so: over a rising curve it is then clear
//   marks    [{ look, x, y }]: points
//   key      { look: name }, at the lower right, for curves that are too near to each other to have names beside them
// Its shapes have the names of the curves apart, one line below another.
function chart(width, height, { x, y, curves, marks = [], key = {} }) {
  const [left, bottom] = [52, 46];
  const place = ({ from, to, log }, value) => {
    const share = log ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from);
    return Math.min(1, Math.max(0, share));
  };
  const across = (value) => left + place(x, value) * (width - left - 20);
  const up = (value) => height - bottom - place(y, value) * (height - bottom - 24);
  const shapes = [];
  for (const tick of x.ticks) {
    shapes.push(line(across(tick), up(y.from), across(tick), up(y.to), "grid"));
    shapes.push(words((x.show ?? String)(tick), across(tick), height - bottom + 18));
  }
  for (const tick of y.ticks) {
    shapes.push(line(left, up(tick), across(x.to), up(tick), "grid"));
    shapes.push(words((y.show ?? String)(tick), left - 6, up(tick) + 5, "end"));
  }
  shapes.push(words(x.label, (left + width) / 2, height - 6), words(y.label, 0, 14, "start"));
  const inside = (value) => value >= y.from * (1 - 1e-9) && value <= y.to * (1 + 1e-9);
  const names = [];
  for (const { name, look, f, end = x.to, before = across(end) > width / 2, below = false } of curves) {
    const points = samples(f, x.from, x.to, x.log).filter(([, value]) => inside(value));
    if (!points.length) continue;
    shapes.push(element("path", { class: `line ${look}`, d: path(points, across, up) }));
    const [at, value] = points.findLast(([each]) => each <= end * (1 + 1e-9)) ?? points[0];
    // not on the numbers of the axis
    const above = Math.min(up(value) + (below ? 18 : -8), height - bottom - 6);
    if (name) names.push({ name, look, at: across(at), before, above });
  }
  names.sort((one, other) => one.above - other.above);
  let last = 12;
  for (const { name, look, at, before, above } of names) {
    last = Math.max(above, last + 18);
    shapes.push(words(name, at, last, before ? "end" : "start", `name ${look}`));
  }
  for (const mark of marks.filter((each) => inside(each.y))) {
    shapes.push(element("circle", { class: mark.look, cx: across(mark.x), cy: up(mark.y), r: 5 }));
  }
  Object.entries(key).reverse().forEach(([look, name], i) => {
    const [right, at] = [across(x.to) - 8, height - bottom - 14 - 20 * i];
    shapes.push(line(right - 32, at - 5, right, at - 5, `line ${look}`), words(name, right - 40, at, "end", `name ${look}`));
  });
  return shapes;
}

// Two bells, one apart: the numbers that may be published without Ada and with her. `seen` is the one that was.
function bells(width, height, { count, noise, reach = 6, label = "published number", seen = null }) {
  const middle = count - 0.5;
  const base = height - 44;
  const across = (x) => (x - middle + reach) / (2 * reach) * width;
  const up = (y) => base - y * noise / kernel.density(0) * (base - 34);
  const shapes = [];
  for (const [look, mean, anchor, side] of [["without", count - 1, "end", -6], ["with", count, "start", 6]]) {
    const density = (x) => kernel.density((x - mean) / noise) / noise;
    const bell = path(samples(density, middle - reach, middle + reach), across, up);
    shapes.push(element("path", { class: `area ${look}`, d: `${bell}L${width},${base}L0,${base}Z` }));
    shapes.push(element("path", { class: `line ${look}`, d: bell }));
    shapes.push(words(`${look} Ada`, across(mean) + side, 20, anchor, look));
  }
  shapes.push(line(0, base, width, base));
  const far = Math.round(2 / 3 * reach);
  const ticks = reach > 20 ? [count - far, count, count + far] : [count - 1 - far, count - 1, count, count + far];
  for (const tick of ticks) {
    const anchor = reach > 20 ? "middle" : { [count - 1]: "end", [count]: "start" }[tick] ?? "middle";
    shapes.push(line(across(tick), base, across(tick), base + 5));
    shapes.push(words(String(tick), across(tick), base + 20, anchor));
  }
  shapes.push(words(label, width / 2, base + 39));
  if (seen !== null) {
    const at = Math.min(width - 3, Math.max(3, across(seen)));
    shapes.push(line(at, 28, at, base, "seen"));
  }
  return shapes;
}

// People in rows; those with an answer of yes are filled. Ada has a colour and is filled when it is known that she is in.
function crowd(width, columns, { people, yes, ada, inside }) {
  const step = width / columns;
  const size = Math.min(step, 40) / 40;
  const shapes = [];
  for (let i = 0; i < people; i += 1) {
    const look = i === ada ? { true: "ada in", false: "ada out", null: "ada" }[inside] : yes.has(i) ? "yes" : "no";
    const person = [
      element("circle", { class: look, cx: 0, cy: -9, r: 6.5 }),
      element("path", { class: look, d: "M-11,15C-11,3 -6,1 0,1C6,1 11,3 11,15Z" }),
    ];
    if (i === ada) person.push(words("Ada", 0, 30, "middle", "with"));
    const [x, y] = [(i % columns + 0.5) * step, (Math.floor(i / columns) + 0.5) * 44 * size];
    shapes.push(element("g", { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${size.toFixed(3)})` }, ...person));
  }
  return { shapes, height: Math.ceil(people / columns) * 44 * size + 16 };
}

const percent = (share) => `${Math.round(100 * share)} %`;

const power = (value) => {
  if (value > 0.005) return String(value);
  const exponent = String(-Math.round(Math.log10(value)));
  return `10\u207b${[...exponent].map((digit) => "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[digit]).join("")}`;
};

const several = (value) => value.toLocaleString("en");

const digits = (value, count = 2) => Number(value.toPrecision(count)).toLocaleString("en", { maximumFractionDigits: 9 });

// ---- figures of the book, by their names

const NOISES = [0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6];
const TIMES = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000];
const RATES = { from: 0, to: 1, ticks: [0, 0.5, 1] };

// A game: the reader guesses from the published number whether Ada was in. `people` shows the crowd beside the bells.
function guess(still, count, people = 0) {
  const game = { number: null, inside: false, asked: 0, right: 0, said: "" };
  let noise = 1;

  // of a crowd: every so many said yes, and Ada is one of them
  const yes = new Set();
  for (let i = 0; yes.size < count && i < people; i += 1) yes.add(i * 7 % people);
  const ada = 35; // in the last row, where her name has room

  const draw = (values, width) => {
    noise = values.noise;
    const best = (1 + kernel.gaussian({ sigma: noise }).delta(0)) / 2;
    const text = `The best possible guess is right in ${percent(best)} of cases. ${game.said}`;
    const known = { count, noise, seen: game.number };
    if (!people) return { shapes: bells(width, 240, known), height: 240, text };
    const wide = width >= 620;
    const room = wide ? 0.42 * width : width;
    const inside = game.waiting || game.number === null ? null : game.inside;
    const { shapes, height } = crowd(room, wide ? 8 : 10, { people, yes, ada, inside });
    const [left, top] = wide ? [room + 24, 0] : [0, height + 8];
    const all = moved(left, top, bells(width - left, 226, known));
    return { shapes: [...shapes, all], height: Math.max(height, top + 226), text };
  };

  const ask = element("button", { type: "button" }, "Publish a number");
  const in_ = element("button", { type: "button" }, "Ada was in");
  const out = element("button", { type: "button" }, "Ada was not in");
  const controls = [element("div", { class: "buttons" }, ask, in_, out)];
  const label = "Two bell curves, one apart: the probability of each published number without Ada and with her.";
  const sliders = [{ name: "noise", text: "Noise, standard deviation", values: NOISES, start: 1 }];
  const redraw = live(still, { label, sliders, draw, controls });

  const turn = (waiting) => {
    game.waiting = waiting;
    ask.disabled = waiting;
    in_.disabled = out.disabled = !waiting;
    redraw();
  };
  ask.addEventListener("click", () => {
    game.inside = Math.random() < 0.5;
    game.number = count - (game.inside ? 0 : 1) + noise * kernel.quantile(Math.random() || 0.5);
    game.said = `The published number is ${game.number.toFixed(1)}. Was Ada in?`;
    turn(true);
    in_.focus();
  });
  const answered = (said) => {
    game.asked += 1;
    game.right += Number(said === game.inside);
    const truth = game.inside ? "Ada was in" : "Ada was not in";
    game.said = `${truth}: you were ${said === game.inside ? "right" : "wrong"}, ${game.right} of ${game.asked} so far.`;
    turn(false);
    ask.focus();
  };
  in_.addEventListener("click", () => answered(true));
  out.addEventListener("click", () => answered(false));
  turn(false);
}

// A threshold over the two bells of a noisy count, and its point and its line at the trade-off curve.
function trace(still) {
  const draw = ({ noise, threshold }, width) => {
    const wide = width >= 620;
    const room = wide ? width / 2 - 16 : width;
    const count = kernel.gaussian({ sigma: noise });
    const [without, with_] = [169, 170].map((mean) => kernel.normal((threshold - mean) / noise));
    const epsilon = (threshold - 169.5) / noise ** 2; // the logarithm of the ratio of densities there
    const delta = count.delta(epsilon);
    const curves = [
      { name: "nothing to learn", look: "nothing", f: (alpha) => 1 - alpha, end: 0.4 },
      { look: "loose", f: (alpha) => 1 - delta - Math.exp(epsilon) * alpha },
      { look: "gaussian", f: (alpha) => 1 - count.tpr(alpha) },
    ];
    const x = { ...RATES, label: "false-positive rate" };
    const y = { ...RATES, label: "false-negative rate" };
    const right = chart(room, 260, { x, y, curves, marks: [{ look: "gaussian", x: 1 - without, y: with_ }] });
    const left = bells(room, 260, { count: 170, noise, seen: threshold });
    const text = `"In" above ${threshold}: wrong in ${digits(100 * (1 - without))} % of cases without Ada, in ${digits(100 * with_)} % with her; `
      + `the dotted line has epsilon ${digits(epsilon)}, delta ${digits(delta)}. The curve: advantage ${digits(count.delta(0))}; `
      + `${digits(100 * count.tpr(0.001))} % true positives at 0.1 % false ones; epsilon ${digits(kernel.epsilon(count, 1e-5))} at delta = ${power(1e-5)}.`;
    return { shapes: [...left, moved(...(wide ? [width - room, 0] : [0, 264]), right)], height: wide ? 260 : 524, text };
  };
  const label = "Two bell curves with a threshold, and the trade-off curve with the point and the line of the threshold.";
  const sliders = [
    { name: "threshold", text: "Threshold", values: Array.from({ length: 19 }, (_, i) => 169.5 + i / 4), start: 170.25 },
    { name: "noise", text: "Noise, standard deviation", values: NOISES, start: 1 },
  ];
  live(still, { label, sliders, draw });
}

// The average of several noisy counts, and their epsilon.
function severalCounts(still) {
  const sigma = 20;
  const delta = 1e-5;
  const exactly = (k) => kernel.epsilon(kernel.gaussian({ sigma: sigma / Math.sqrt(k) }), delta);
  const added = (k) => k * kernel.epsilon(kernel.gaussian({ sigma }), delta / k);
  const draw = ({ answers }, width) => {
    const noise = sigma / Math.sqrt(answers);
    const wide = width >= 620;
    const room = wide ? width / 2 - 16 : width;
    const known = { count: 170, noise, reach: Math.max(3, 3 * noise), label: "average of the answers" };
    const x = { from: 1, to: 1000, log: true, ticks: [1, 10, 100, 1000], show: several, label: "answers" };
    const y = { from: 0.1, to: 1000, log: true, ticks: [0.1, 1, 10, 100, 1000], show: several, label: "epsilon" };
    const curves = [
      { name: "epsilons added", look: "loose", f: added, end: 300 },
      { name: "exact", look: "gaussian", f: exactly },
    ];
    const marks = [{ look: "gaussian", x: answers, y: exactly(answers) }, { look: "loose", x: answers, y: added(answers) }];
    const right = chart(room, 240, { x, y, curves, marks });
    const place = wide ? [width - room, 0] : [0, 240];
    const best = (1 + kernel.gaussian({ sigma: noise }).delta(0)) / 2;
    const text = `${several(answers)} ${answers === 1 ? "answer" : "answers"}: the best guess is right in ${percent(best)} of cases. `
      + `Epsilon is ${digits(exactly(answers))} exactly, and ${digits(added(answers))} if epsilons are added.`;
    return { shapes: [...bells(room, 240, known), moved(...place, right)], height: wide ? 240 : 480, text };
  };
  const label = "Two bell curves of the average of all answers, without Ada and with her, and epsilon against the number of answers.";
  live(still, { label, sliders: [{ name: "answers", text: "Answers", values: TIMES, start: 1, show: several }], draw });
}

// Votes of 51 models, with noise on both counts.
function closeVote(still) {
  const draw = ({ lead, scale }, width) => {
    const height = 280;
    const base = height - 54;
    const up = (votes) => base - votes / 51 * (base - 24);
    const shapes = [line(0, base, width, base), words("votes", 0, 14, "start")];
    shapes.push(words("without Ada", 0, 36, "start", "without"), words("with Ada", 96, 36, "start", "with"));
    const counts = { without: [(51 - lead) / 2, (51 + lead) / 2], with: [(53 - lead) / 2, (49 + lead) / 2] };
    const half = scale * Math.log(10); // nine of ten draws of the noise are within this
    const bar = Math.min(70, width / 6);
    ["malignant", "benign"].forEach((name, side) => {
      const middle = width * (0.27 + 0.46 * side);
      shapes.push(words(name, middle, height - 10));
      for (const [look, left] of [["without", middle - bar - 2], ["with", middle + 2]]) {
        const votes = counts[look][side];
        shapes.push(element("rect", { class: `bar ${look}`, x: left, y: up(votes), width: bar, height: base - up(votes) }));
        shapes.push(line(left + bar / 2, up(Math.max(0, votes - half)), left + bar / 2, Math.max(0, up(votes + half)), "seen"));
        shapes.push(words(votes, left + bar / 2, base + 18, "middle", look));
      }
    });
    const wins = (votes) => kernel.laplaceWins({ lead: votes[0] - votes[1], scale });
    const text = `"Malignant" is announced in ${(100 * wins(counts.without)).toFixed(1)} % of cases without Ada, `
      + `and in ${(100 * wins(counts.with)).toFixed(1)} % with her.`;
    return { shapes, height, text };
  };
  const label = "Votes for malignant and benign without Ada and with her; vertical lines show where nine of ten noisy counts are.";
  const leads = Array.from({ length: 17 }, (_, i) => 2 * i + 1);
  const sliders = [
    { name: "lead", text: "Lead of benign, votes", values: leads, start: 1 },
    { name: "scale", text: "Noise, scale", values: [0.1, 0.2, 0.5, 1, 2, 3, 5, 7, 10, 15, 20], start: 5 },
  ];
  live(still, { label, sliders, draw });
}

// Gradients of a few records, clipped, and their sum with noise, many times without the last record and with it.
function clipAndAdd(still, { gradients, noises }) {
  const length = ([x, y]) => Math.hypot(x, y);
  const sum = (all) => all.reduce(([a, b], [x, y]) => [a + x, b + y], [0, 0]);
  const draw = ({ clip, sigma }, width) => {
    const shapes = [];
    // a panel of arrows has its origin at the same place, whatever they are
    const arrows = (vectors, title, left, room) => {
      const size = room / 4.6;
      const [x, y] = [left + 1.8 * size, 24 + 2.2 * size];
      const at = ([dx, dy]) => [x + dx * size, y - dy * size];
      shapes.push(words(title, left + room / 2, 16));
      shapes.push(element("circle", { class: "limit", cx: x, cy: y, r: clip * size }));
      vectors.forEach((vector, i) => {
        const look = i === vectors.length - 1 ? "with" : "without";
        shapes.push(line(x, y, ...at(vector), `line ${look} whole`));
        const [cx, cy] = at(vector);
        shapes.push(element("circle", { class: look, cx, cy, r: 4 }));
        if (look === "with") shapes.push(words("Ada", cx + 8, cy - 4, "start", "name with"));
      });
    };
    const clipped = gradients.map((vector) => {
      const factor = Math.min(1, clip / length(vector));
      return vector.map((part) => part * factor);
    });
    const wide = width >= 620;
    const room = wide ? width / 3 : width / 2;
    arrows(gradients, "gradients", 0, room);
    arrows(clipped, "clipped to C", room, room);

    // the scale of the third panel is that of the noise: what is seen is how far Ada moves it
    const [left, top, wideness] = wide ? [2 * room, 20, room] : [0, room + 44, width];
    const tall = wide ? room : 0.6 * width;
    const without = sum(clipped.slice(0, -1));
    const with_ = sum(clipped);
    const size = tall / (2 * clip + 6 * sigma * clip);
    const middle = [(without[0] + with_[0]) / 2, (without[1] + with_[1]) / 2];
    const at = ([a, b]) => [left + wideness / 2 + (a - middle[0]) * size, top + 24 + tall / 2 - (b - middle[1]) * size];
    const title = left + wideness / 2;
    shapes.push(words("sum + noise, at its own scale", title, top - 4));
    shapes.push(words("without Ada", title - 6, top + 16, "end", "without"), words("with Ada", title + 6, top + 16, "start", "with"));
    noises.forEach(([a, b], i) => {
      const [look, centre] = i % 2 ? ["with", with_] : ["without", without];
      const [cx, cy] = at([centre[0] + sigma * clip * a, centre[1] + sigma * clip * b]);
      shapes.push(element("circle", { class: `${look} cloud`, cx, cy, r: 2.5 }));
    });
    for (const [look, centre] of [["without", without], ["with", with_]]) {
      const [cx, cy] = at(centre);
      shapes.push(element("circle", { class: `${look} marked`, cx, cy, r: 6 }));
    }
    const [cx, cy] = at(without);
    shapes.push(element("circle", { class: "limit", cx, cy, r: clip * size }));
    const best = (1 + kernel.gaussian({ sigma: sigma * clip / length(clipped[clipped.length - 1]) }).delta(0)) / 2;
    const text = `Ada moves the sum by ${digits(length(clipped[clipped.length - 1]))}, and the noise has the standard deviation `
      + `${digits(sigma * clip)}. The best guess whether she is in the sum is right in ${percent(best)} of cases.`;
    return { shapes, height: top + 24 + tall + 8, text };
  };
  const label = "Arrows from one point, the same arrows cut off at a circle, and two clouds of points that overlap.";
  const sliders = [
    { name: "clip", text: "Clipping norm C", values: [0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3], start: 1 },
    { name: "sigma", text: "Noise multiplier", values: [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5], start: 1.5 },
  ];
  live(still, { label, sliders, draw });
}

// Epsilon of DP-SGD against its steps, by the theorem and by two shortcuts.
function epsilonOfSteps(still) {
  const delta = 1e-5;
  const known = new Map(); // of a noise and a rate, the two curves that need all losses of a step
  const curvesOf = (sigma, rate) => {
    const key = `${sigma} ${rate}`;
    if (!known.has(key)) {
      const times = [1, 10, 100, 1000, 10000];
      const epsilons = times.map((steps) => kernel.epsilon(kernel.dpSgd({ sigma, rate, steps }), delta));
      const one = kernel.dpSgd({ sigma, rate, steps: 1 });
      known.set(key, [through(times, epsilons), (t) => t * kernel.epsilon(one, delta / t)]);
    }
    return known.get(key);
  };
  const draw = ({ sigma, rate, steps }, width) => {
    const [exact, added] = curvesOf(sigma, rate);
    const unsampled = (t) => kernel.epsilon(kernel.gaussian({ sigma: sigma / Math.sqrt(t) }), delta);
    const at = kernel.epsilon(kernel.dpSgd({ sigma, rate, steps }), delta);
    const x = { from: 1, to: 10000, log: true, ticks: [1, 10, 100, 1000, 10000], show: several, label: "steps T" };
    const y = { from: 0.01, to: 10000, log: true, ticks: [0.01, 1, 100, 10000], show: several, label: "epsilon" };
    const curves = [
      { name: "epsilons added", look: "nothing", f: added, end: 1000 },
      { name: "no sampling", look: "loose", f: unsampled, end: 300, before: false, below: true },
      { name: "the theorem", look: "dp-sgd", f: exact, end: 30, below: true },
    ];
    const marks = [{ look: "dp-sgd", x: steps, y: at }, { look: "loose", x: steps, y: unsampled(steps) }];
    const text = `After ${several(steps)} ${steps === 1 ? "step" : "steps"} epsilon is ${digits(at)} at delta = ${power(delta)}. `
      + `Without the sampling it would be ${digits(unsampled(steps))}, and ${digits(added(steps))} if the epsilons of the steps were added.`;
    return { shapes: chart(width, 300, { x, y, curves, marks }), height: 300, text };
  };
  const label = "Epsilon of DP-SGD against the number of steps, by the theorem, without the sampling, and by adding.";
  const sliders = [
    { name: "sigma", text: "Noise multiplier", values: [0.7, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 4], start: 1.5 },
    { name: "rate", text: "Sample rate q", values: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5], start: 0.1 },
    { name: "steps", text: "Steps T", values: tens(0, 4), start: 100, show: several },
  ];
  live(still, { label, sliders, draw });
}

// What each answer of private prediction needs if all of them have one guarantee.
function eachAnswer(still, { answers, noise, lead }) {
  const looks = {
    "released model": "model", "noisy answers": "gaussian", "published noise": "nothing",
    votes: "votes", "published lead": "nothing",
  };
  const draw = ({ place }, width) => {
    const wide = width >= 620;
    const room = wide ? width / 2 - 16 : width;
    const [from, to] = [answers[0], answers[answers.length - 1]];
    const x = { from, to, log: true, ticks: [1, 10, 100, 1000], show: several, label: "answers B" };
    const panel = (of, label) => {
      const y = { from: 1, to: 1000, log: true, ticks: [1, 10, 100, 1000], show: several, label };
      // where two curves meet, the names are apart
      const ends = {
        "noisy answers": { end: 30, before: false, below: true }, "published noise": { end: 200, before: true },
        votes: { end: 8, before: true }, "published lead": { end: 2, below: true },
      };
      const curves = Object.entries(of).map(([name, values]) => {
        return { name, look: looks[name], f: through(answers, values), ...ends[name] };
      });
      const marks = curves.map(({ look, f }) => ({ look, x: answers[place], y: f(answers[place]) }));
      return chart(room, 260, { x, y, curves, marks });
    };
    const second = panel(lead, "lead that wins 95 %, in votes");
    const shapes = [...panel(noise, "noise on a logit"), moved(...(wide ? [width - room, 0] : [0, 260]), second)];
    const of = (values) => digits(values[place]);
    const many = answers[place] === 1 ? "an answer" : `each of ${several(answers[place])} answers`;
    const text = `For ${many}, noise of ${of(noise["noisy answers"])} is enough (published: ${of(noise["published noise"])}), `
      + `and a vote needs a lead of ${of(lead.votes)}. A released model has noise of ${of(noise["released model"])} for any number.`;
    return { shapes, height: wide ? 260 : 520, text };
  };
  const label = "Noise on a logit, and the lead that a vote needs, against the number of answers.";
  const sliders = [{ name: "place", text: "Answers B", values: answers.map((_, i) => i), start: 5, show: (i) => several(answers[i]) }];
  live(still, { label, sliders, draw });
}

// Which method of private prediction to take: its noise, or its lead in votes, at a pair and a number of answers.
function whichMethod(still, { models, stops }) {
  const rows = [
    ["model sensitivity", "model", "model_sensitivity"], ["loss perturbation", "perturbation", "loss_perturbation"],
    ["prediction sensitivity", "gaussian", "prediction_sensitivity"], ["votes", "votes", "lead"],
  ];
  const draw = ({ epsilon, delta, answers }, width) => {
    const found = stops.find((stop) => stop.epsilon === epsilon && stop.delta === delta && stop.answers === answers);
    const left = 152;
    const shapes = [];
    // points on a logarithmic axis with its label, one for each row
    const dots = (some, top, { from, to, ticks, label }) => {
      const across = (value) => left + Math.log(value / from) / Math.log(to / from) * (width - left - 64);
      const base = top + 34 * some.length;
      for (const tick of ticks) {
        shapes.push(line(across(tick), top, across(tick), base, "grid"), words(several(tick), across(tick), base + 18));
      }
      some.forEach(([name, look, key], i) => {
        const [at, up] = [across(found[key]), top + 34 * i + 17];
        shapes.push(words(name, left - 8, up + 5, "end", look), line(left, up, across(to), up, "grid"));
        shapes.push(element("circle", { class: look, cx: at, cy: up, r: 6 }));
        shapes.push(words(digits(found[key]), width, up + 5, "end", look));
      });
      shapes.push(words(label, width, base + 38, "end"));
      return across;
    };
    dots(rows.slice(0, 3), 0, { from: 0.001, to: 1000, ticks: [0.001, 0.1, 10, 1000], label: "noise on a logit" });
    const votes = dots(rows.slice(3), 180, { from: 1, to: 30000, ticks: [1, 100, 10000], label: "lead that wins 95 %, in votes" });
    shapes.push(line(votes(models), 176, votes(models), 214, "seen"), words(`all ${models}`, votes(models), 170));
    const possible = found.lead <= models;
    const ask = possible ? `votes if a class usually leads by ${digits(found.lead)} of ${models} votes` : "no votes, since no lead is large enough";
    const linear = delta ? "release it" : `${ask}; otherwise loss perturbation`;
    const other = delta ? `${ask}; otherwise DP-SGD` : ask;
    return { shapes, height: 256, text: `A linear model: ${linear}. A model that is not convex: ${other}.` };
  };
  const label = "Points: the noise of three methods on a logit, and the lead that votes need.";
  const every = (name) => [...new Set(stops.map((stop) => stop[name]))];
  const sliders = [
    { name: "epsilon", text: "Epsilon", values: every("epsilon"), start: 1 },
    { name: "delta", text: "Delta", values: every("delta"), start: 1e-5, show: (value) => (value ? power(value) : "0") },
    { name: "answers", text: "Answers B", values: every("answers"), start: 100, show: several },
  ];
  live(still, { label, sliders, draw });
}

// Bagging and Gaussian noise of the same advantage.
function sameAdvantage(still) {
  const draw = ({ n, k, models }, width) => {
    const bag = kernel.bagging({ n, subsample: k, models });
    // Gaussian noise of the advantage 1 would be no noise at all
    const advantage = Math.min(bag.delta(0), 1 - 1e-12);
    const sigma = 1 / (2 * kernel.quantile((1 + advantage) / 2));
    const noise = kernel.gaussian({ sigma });
    const x = { from: 1e-5, to: 1, log: true, ticks: [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1], show: power, label: "false-positive rate" };
    const y = { ...x, label: "largest true-positive rate" };
    const curves = [
      { name: "nothing to learn", look: "nothing", f: (alpha) => alpha, end: 0.002, before: false, below: true },
      { name: "bagging", look: "bagging", f: bag.tpr, end: 2e-5 },
      // its name ends over the curve, which is lower where the name begins
      { name: "Gaussian noise", look: "gaussian", f: noise.tpr, end: 0.01 },
    ];
    const text = `Both have the advantage ${digits(advantage)}. At 0.1 % false alarms an attacker finds ${digits(100 * bag.tpr(0.001))} % `
      + `of the people in the data of bagging, and ${digits(100 * noise.tpr(0.001))} % under Gaussian noise.`;
    return { shapes: chart(width, 300, { x, y, curves }), height: 300, text };
  };
  const label = "Largest true-positive rate at each false-positive rate, for bagging and for Gaussian noise of the same advantage.";
  const sizes = [100, 200, 500, 1000, 2000, 5000, 10000, 20000, 60000, 100000, 1000000];
  const sliders = [
    { name: "n", text: "Records n", values: sizes, start: 60000, show: several },
    { name: "k", text: "Drawn for each model k", values: [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000], start: 5000, show: several },
    { name: "models", text: "Models N", values: [1, 2, 3, 5, 10, 20, 50, 100], start: 1 },
  ];
  live(still, { label, sliders, draw });
}

const tens = (from, to) => Array.from({ length: 10 * (to - from) + 1 }, (_, i) => {
  const round = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8][i % 10];
  return Number(`${round}e${from + Math.floor(i / 10)}`);
});

// Four mechanisms, with the sliders of each, and three numbers of each curve.
function explore(still) {
  const names = { bagging: "bagging", gaussian: "Gaussian noise", "dp-sgd": "DP-SGD", votes: "votes" };
  const table = element("table", { class: "table" });
  const known = {}; // of each mechanism the last curve, which only its own sliders change
  const of = (look, settings, make) => {
    const asked = JSON.stringify(settings);
    if (known[look]?.asked !== asked) known[look] = { asked, made: make(settings) };
    return known[look].made;
  };
  const draw = (values, width, hidden) => {
    const { n, k, models, noise, times, sigma, rate, steps, beta, answers } = values;
    const all = {
      bagging: of("bagging", { n, subsample: k, models }, kernel.bagging),
      gaussian: of("gaussian", { sigma: noise / Math.sqrt(times) }, kernel.gaussian),
      "dp-sgd": of("dp-sgd", { sigma, rate, steps }, kernel.dpSgd),
      votes: of("votes", { beta, answers }, kernel.softVotes),
    };
    const x = { from: 1e-5, to: 1, log: true, ticks: [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1], show: power, label: "false-positive rate" };
    const curves = [{ look: "nothing", f: (alpha) => alpha }];
    const key = {};
    const heads = ["", "advantage", "true positives at 0.1\u00a0% false ones", `epsilon at delta ${power(1e-5)}`];
    const rows = [element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))];
    for (const [look, mechanism] of Object.entries(all)) {
      if (hidden.has(look)) continue;
      curves.push({ look, f: mechanism.tpr });
      key[look] = names[look];
      const epsilon = mechanism.delta(1e4) > 1e-5 ? "none" : kernel.epsilon(mechanism, 1e-5).toFixed(3);
      const facts = [mechanism.delta(0).toFixed(4), mechanism.tpr(0.001).toFixed(4), epsilon];
      const cells = facts.map((fact) => element("td", {}, fact));
      rows.push(element("tr", {}, element("th", { scope: "row", class: look }, names[look]), ...cells));
    }
    table.replaceChildren(...rows);
    const y = { ...x, label: "largest true-positive rate" };
    key.nothing = "nothing to learn";
    return { shapes: chart(width, 380, { x, y, curves, key }), height: 380, text: "" };
  };
  const sliders = [
    { group: "bagging", name: "n", text: "records n", values: tens(2, 6), start: 60000, show: several },
    { group: "bagging", name: "k", text: "drawn for each model k", values: tens(1, 5), start: 5000, show: several },
    { group: "bagging", name: "models", text: "models N", values: Array.from({ length: 100 }, (_, i) => i + 1), start: 1 },
    { group: "gaussian", name: "noise", text: "noise / sensitivity", values: Array.from({ length: 196 }, (_, i) => (i + 5) / 10), start: 5 },
    { group: "gaussian", name: "times", text: "answers", values: Array.from({ length: 100 }, (_, i) => i + 1), start: 1 },
    { group: "dp-sgd", name: "sigma", text: "noise multiplier", values: Array.from({ length: 24 }, (_, i) => (i + 7) / 10), start: 1.4 },
    { group: "dp-sgd", name: "rate", text: "sample rate", values: tens(-3, -1), start: 0.01 },
    { group: "dp-sgd", name: "steps", text: "steps", values: [1, ...tens(1, 4)], start: 1000, show: several },
    { group: "votes", name: "beta", text: "inverse temperature", values: tens(-2, 0), start: 0.1 },
    { group: "votes", name: "answers", text: "answers", values: [1, 2, 5, ...tens(1, 3)], start: 100, show: several },
  ];
  const label = "Largest true-positive rate of a membership test at each false-positive rate, for four mechanisms.";
  live(still, { label, sliders, draw, groups: names, controls: [table] });
}

// What an epsilon means for one person.
function meaning(still) {
  const draw = ({ epsilon, delta }, width) => {
    const any = (x) => kernel.approximate({ epsilon: x, delta }).tpr(0.001);
    const noise = (x) => kernel.gaussian({ sigma: kernel.sigma(x, delta) }).tpr(0.001);
    const x = { from: 0.1, to: 16, log: true, ticks: [0.1, 0.5, 1, 2, 4, 8, 16], label: "epsilon" };
    const y = { from: 0.001, to: 1, log: true, ticks: [0.001, 0.01, 0.1, 1], show: (share) => `${100 * share} %`, label: "people recognised, at most" };
    const curves = [
      { name: "any mechanism with this pair", look: "loose", f: any, end: 4 },
      { name: "Gaussian noise", look: "gaussian", f: noise, end: 3, before: false, below: true },
    ];
    const marks = [{ look: "loose", x: epsilon, y: any(epsilon) }, { look: "gaussian", x: epsilon, y: noise(epsilon) }];
    const text = `At epsilon ${epsilon} an even chance that Ada is in becomes at most ${digits(100 / (1 + Math.exp(-epsilon)))} %. `
      + `With 0.1 % false alarms, an attacker recognises at most ${digits(100 * any(epsilon))} % of the people in the data; `
      + `if the noise is Gaussian, ${digits(100 * noise(epsilon))} %.`;
    return { shapes: chart(width, 300, { x, y, curves, marks }), height: 300, text };
  };
  const label = "The share of people that an attack recognises at 0.1 % false alarms, against epsilon.";
  const sliders = [
    { name: "epsilon", text: "Epsilon", values: [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16], start: 1 },
    { name: "delta", text: "Delta", values: [1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3], start: 1e-5, show: power },
  ];
  live(still, { label, sliders, draw });
}

// The scores of a record in classifiers that were trained without it and with it, and a threshold.
function threshold(still, { heights, places, sizes }) {
  const most = 1.1 * Math.max(...Object.values(heights).flat());
  const looks = { "trained without her": "without", "trained with her": "with" };
  const draw = ({ place }, width) => {
    const height = 240;
    const base = height - 44;
    const across = (i) => i / (places.at.length - 1) * width;
    const up = (count) => base - count / most * (base - 24);
    const shapes = [];
    for (const [name, counts] of Object.entries(heights)) {
      const steps = counts.map((count, i) => `L${across(i)},${up(count)}L${across(i + 1)},${up(count)}`);
      const outline = `M0,${base}${steps.join("")}L${width},${base}Z`;
      shapes.push(element("path", { class: `area ${looks[name]}`, d: outline }));
      const with_ = looks[name] === "with";
      shapes.push(words(name, with_ ? width - 4 : 4, 16, with_ ? "end" : "start", looks[name]));
    }
    const [first, last] = [places.at[0], places.at.at(-1)];
    for (let tick = Math.ceil(first); tick <= last; tick += 1) {
      const at = (tick - first) / (last - first) * width;
      if (at > 12 && at < width - 12) shapes.push(words(String(tick).replace("-", "\u2212"), at, base + 18));
    }
    shapes.push(line(0, base, width, base), line(across(place), 24, across(place), base, "seen"));
    shapes.push(words("score of her record", width / 2, height - 6));
    const text = `True positives: ${places.true[place]} of ${sizes[0]}; false positives: ${places.false[place]} of ${sizes[1]}. `
      + `Epsilon is at least ${places.epsilon[place].toFixed(2)}.`;
    return { shapes, height, text };
  };
  const label = "Histograms of the scores of classifiers trained without her and with her, and a threshold.";
  const sliders = [{ name: "place", text: "Threshold", values: places.at.map((_, i) => i), start: 24, show: (i) => digits(places.at[i]) }];
  live(still, { label, sliders, draw });
}

// By the name of the figure: what makes it, and what a caption that describes only the still picture becomes.
const FIGURES = {
  "fig-index-bells": { make: (still) => guess(still, 17, 40) },
  "fig-guarantee-drift": {
    make: (still) => guess(still, 170),
    caption: "Probability of each published number, with Ada and without her; the two curves are always one apart. Move the noise, publish a number, and guess whether Ada was in.",
  },
  "fig-guarantee-trace": {
    make: trace,
    caption: "A test says \"in\" to the right of the threshold. Its two error rates are a point of the trade-off curve, and the dotted line that touches the curve there belongs to one pair of epsilon and delta. Move the threshold, then the noise.",
  },
  "fig-composition-drift": {
    make: severalCounts,
    caption: "Noisy counts with noise of standard deviation 20. On one side, the distribution of the average of all answers, with Ada and without her. On the other, epsilon at delta = 10\u207b\u2075, by adding the epsilons and by an exact account. Move the number of answers.",
  },
  "fig-dpsgd-opening": {
    make: clipAndAdd,
    caption: "A toy network with two weights: the gradients of twelve records and of Ada's; the same gradients, shortened where they were longer than the clipping norm C (dashed circle); and the released sum, 150 times with Ada's record and 150 times without it, around the two sums before noise. Move both: what hides Ada is the noise in units of C.",
  },
  "fig-dpsgd-steps": {
    make: epsilonOfSteps,
    caption: "Epsilon of DP-SGD against the number of steps, computed in three ways. Move the noise multiplier, the sample rate and the number of steps.",
  },
  "fig-pp-idea": { make: eachAnswer },
  "fig-pp-which": {
    make: whichMethod,
    caption: "What each method needs for data of the size of MNIST if one record is added or removed: noise on a logit (for loss perturbation at most this noise), and for a vote the lead. Move epsilon, delta and the number of answers.",
  },
  "fig-votes-opening": {
    make: closeVote,
    caption: "Votes of 51 models (an odd number, so that there is no tie) on one question, with Ada's record and without it. The vertical lines show where nine out of ten counts are after noise has been added. Move the lead and the noise.",
  },
  "fig-attacks-slider": { make: threshold },
  "fig-bagging-tradeoff": {
    make: sameAdvantage,
    caption: "What the guarantee allows a membership test, for bagging and for Gaussian noise of the same advantage. The curve of bagging stays level down to the rarest false alarms; under Gaussian noise a test that is hardly ever wrong finds hardly anybody.",
  },
  "fig-choose": { make: meaning },
  "fig-explorer": { make: explore },
};

document.addEventListener("DOMContentLoaded", () => {
  for (const [name, { make, caption }] of Object.entries(FIGURES)) {
    const figure = document.getElementById(name);
    if (!figure) continue;
    make(figure.firstElementChild, JSON.parse(document.getElementById(`given-${name}`)?.textContent ?? "null"));
    const words_ = figure.querySelector(".caption-text");
    if (!caption) continue;
    words_.replaceChildren(element("span", { class: "live-only" }, caption), element("span", { class: "still-only" }, ...words_.childNodes));
  }
});
