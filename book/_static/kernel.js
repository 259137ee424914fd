// Guarantees in closed form, for figures that a reader moves. Each mechanism has two functions:
//   delta(epsilon)   smallest delta, epsilon >= 0
//   tpr(alpha)       largest share of members that a test recognises at the false-alarm rate alpha in [0, 1]
// The advantage of the best test is delta(0), and the trade-off curve is 1 - tpr(alpha).
// tests/book/test_kernel.py compares all of them with dpnotes.accounting.

const kernel = (() => {
  const density = (x) => Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);

  // (1 - Phi(x)) / density(x) for x >= 3: the continued fraction 1 / (x + 1 / (x + 2 / (x + ...))), from its end
  function mills(x) {
    let rest = x;
    for (let k = 100; k > 0; k -= 1) rest = x + k / rest;
    return 1 / rest;
  }

  // Phi(x), the normal distribution function
  function normal(x) {
    if (x < -3) return density(x) * mills(-x);
    if (x > 3) return 1 - density(x) * mills(x);
    let term = x;
    let sum = x;
    for (let k = 3; Math.abs(term) > 1e-17; k += 2) {
      term *= x * x / k;
      sum += term;
    }
    return 0.5 + density(x) * sum;
  }

  // e^shift times (1 - Phi(x)), without an overflow of the factor
  function scaledTail(x, shift) {
    if (x <= 3) return Math.exp(shift) * normal(-x);
    return Math.exp(shift - x * x / 2) / Math.sqrt(2 * Math.PI) * mills(x);
  }

  // the x with Phi(x) = p, by halving
  function quantile(p) {
    if (p <= 0) return -Infinity;
    if (p >= 1) return Infinity;
    if (p > 0.5) return -quantile(1 - p);
    return halve((x) => normal(x) >= p, -40, 0);
  }

  // an exact answer plus normal noise; one record moves the answer by 1
  function gaussian({ sigma }) {
    const mu = 1 / sigma;
    return {
      delta: (epsilon) =>
        Math.max(0, normal(mu / 2 - epsilon / mu) - scaledTail(mu / 2 + epsilon / mu, epsilon)),
      tpr: (alpha) => normal(quantile(alpha) + mu),
    };
  }

  // the same with noise whose density falls like e^(-|x| / scale)
  function laplace({ scale }) {
    const most = 1 / scale;
    return {
      delta: (epsilon) => Math.max(0, -Math.expm1((epsilon - most) / 2)),
      tpr: (alpha) => {
        if (alpha <= Math.exp(-most) / 2) return Math.exp(most) * alpha;
        if (alpha <= 0.5) return 1 - Math.exp(-most) / (4 * alpha);
        return 1 - Math.exp(-most) * (1 - alpha);
      },
    };
  }

  // a yes or no that is true with probability e^epsilon / (1 + e^epsilon): the worst that (epsilon, 0)-DP allows
  function randomisedResponse({ epsilon: most }) {
    return {
      delta: (epsilon) => Math.max(0, -Math.expm1(epsilon - most) / (1 + Math.exp(-most))),
      tpr: (alpha) => Math.min(Math.exp(most) * alpha, 1 - Math.exp(-most) * (1 - alpha)),
    };
  }

  // models, each of a subsample that is drawn with replacement
  function bagging({ n, subsample, models = 1 }) {
    const drawn = -Math.expm1(models * subsample * Math.log1p(-1 / n));
    return {
      delta: () => drawn,
      tpr: (alpha) => Math.min(1, drawn + alpha),
    };
  }

  // all that is known of a mechanism is one pair
  function approximate({ epsilon: most, delta: least }) {
    return {
      delta: (epsilon) => least + (1 - least) * Math.max(0, -Math.expm1(epsilon - most) / (1 + Math.exp(-most))),
      tpr: (alpha) => Math.min(1, least + Math.exp(most) * alpha, 1 - Math.exp(-most) * (1 - least - alpha)),
    };
  }

  // one answer, a class with probability proportional to e^(beta votes)
  function softVote({ beta }) {
    const width = 2 * beta;
    return {
      delta: (epsilon) => Math.expm1(Math.min(0, (epsilon - width) / 2)) ** 2 / -Math.expm1(-width),
      tpr: (alpha) => alpha / (alpha + (1 - alpha) * Math.exp(-width)),
    };
  }

  // the least epsilon at which a mechanism has this delta, by halving
  function epsilon({ delta }, target) {
    let high = 1;
    while (delta(high) > target) high *= 2;
    return halve((x) => delta(x) <= target, 0, high);
  }

  // the least normal noise that has this pair, for an answer that one record moves by 1
  function sigma(most, target) {
    return Math.exp(halve((x) => gaussian({ sigma: Math.exp(x) }).delta(most) <= target, -10, 30));
  }

  // the least x between the two at which `holds` begins to be true
  function halve(holds, low, high) {
    if (holds(low)) return low;
    for (let step = 0; step < 60; step += 1) {
      const middle = (low + high) / 2;
      if (holds(middle)) high = middle;
      else low = middle;
    }
    return high;
  }

  // the probability that a class with this lead (or a negative one) wins once both counts have Laplace noise
  function laplaceWins({ lead, scale }) {
    const distance = Math.abs(lead) / scale;
    const loses = (2 + distance) * Math.exp(-distance) / 4;
    return lead < 0 ? loses : 1 - loses;
  }

  return { approximate, bagging, density, epsilon, gaussian, laplace, laplaceWins, normal, quantile, randomisedResponse, sigma, softVote };
})();

if (typeof module !== "undefined") module.exports = kernel; // node, in the tests
