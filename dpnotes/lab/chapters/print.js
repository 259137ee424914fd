// Opens what is folded, scales what is wider than its place, and says what is still cut.
async () => {
  document.documentElement.dataset.theme = 'light';
  document.querySelectorAll('details:not(.above-input)').forEach(e => { e.open = true; });
  document.querySelectorAll('.toggle-hidden').forEach(e => e.classList.remove('toggle-hidden'));
  document.querySelectorAll('img').forEach(e => { e.loading = 'eager'; });
  await Promise.all([...document.images].map(e => e.decode().catch(() => null)));
  if (window.MathJax?.startup) await window.MathJax.startup.promise;
  for (const link of document.querySelectorAll('a[href]')) {
    const inside = link.hash && link.pathname === location.pathname;
    if (link.protocol === 'file:' && !inside) link.removeAttribute('href');
  }
  const article = document.querySelector('article') ?? document.body;
  const right = article.getBoundingClientRect().right + 1;
  const wide = 'h1, h2, mjx-container, table, img, svg, pre';
  const over = e => !e.parentElement.closest(wide) && e.getBoundingClientRect().right > right;
  for (const e of [...article.querySelectorAll(wide)].filter(over)) {
    const box = e.getBoundingClientRect();
    e.style.zoom = Math.max(0.15, 0.99 * (right - box.left) / box.width);
  }
  return [...article.querySelectorAll(wide)].filter(over).map(e => e.textContent.trim().slice(0, 60));
}
