// How deep a reader reads: the story, with proofs and details, or everything. What is folded are details elements (lab/folds.py).

const DEPTHS = { story: ":not(*)", proofs: ":not(.fold-code)", code: "*" };
const NAMES = { story: "the story", proofs: "with proofs and details", code: "everything, with code" };

function remembered() {
  try {
    const depth = localStorage.getItem("dpnotes-depth");
    return depth in DEPTHS ? depth : "story";
  } catch { // a browser that keeps nothing
    return "story";
  }
}

function openTo(depth) {
  for (const fold of document.querySelectorAll("main details.fold")) {
    fold.open = fold.matches(DEPTHS[depth]);
  }
  try { localStorage.setItem("dpnotes-depth", depth); } catch { /* it is asked again on the next page */ }
}

// What a link leads to is opened, whatever the depth.
function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let fold = target && target.closest("details.fold"); fold; fold = fold.parentElement.closest("details.fold")) {
    fold.open = true;
    target.scrollIntoView();
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const title = document.querySelector("main article h1");
  if (!title || !document.querySelector("main details.fold")) return;
  const group = document.createElement("fieldset");
  group.className = "depths";
  group.insertAdjacentHTML("beforeend", "<legend>Read</legend>");
  for (const [depth, name] of Object.entries(NAMES)) {
    const label = document.createElement("label");
    const choice = Object.assign(document.createElement("input"), { type: "radio", name: "depth", value: depth });
    choice.checked = depth === remembered();
    choice.addEventListener("change", () => openTo(depth));
    label.append(choice, name);
    group.append(label);
  }
  title.after(group);
  openTo(remembered());
  openTarget();
  window.addEventListener("hashchange", openTarget);
});
