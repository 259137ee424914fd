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

  // The transform of complex numbers in place; there are a power of two of them.
  function fourier(real, imaginary, sign) {
    const n = real.length;
    for (let i = 1, j = 0; i < n; i += 1) {
      let bit = n >> 1;
      for (; j & bit; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) {
        [real[i], real[j]] = [real[j], real[i]];
        [imaginary[i], imaginary[j]] = [imaginary[j], imaginary[i]];
      }
    }
    for (let size = 2; size <= n; size *= 2) {
      const half = size / 2;
      for (let k = 0; k < half; k += 1) {
        const angle = sign * 2 * Math.PI * k / size;
        const [c, s] = [Math.cos(angle), Math.sin(angle)];
        for (let i = k; i < n; i += size) {
          const j = i + half;
          const [re, im] = [real[j] * c - imaginary[j] * s, real[j] * s + imaginary[j] * c];
          [real[j], imaginary[j]] = [real[i] - re, imaginary[i] - im];
          real[i] += re;
          imaginary[i] += im;
        }
      }
    }
  }

  // The losses > 0 of many equal releases together, in ascending order, with their probabilities. One release has a
  // loss above l with probability `member(l)`, and `other(l)` without the record; all its losses are in [low, high].
  function losses({ member, other, low, high }, times) {
    const n = 2 ** 14;
    const place = (step, use) => {
      // each piece of the grid keeps both of its probabilities: it is divided between its ends
      const first = Math.floor(low / step);
      let [with_, without] = [member(first * step), other(first * step)];
      for (let i = first, l = first * step; l < high; i += 1, l = i * step) {
        const [p, q] = [with_ - member(l + step), without - other(l + step)];
        [with_, without] = [with_ - p, without - q];
        const rest = q > 0 ? p - q * Math.exp(Math.min(l, 700)) : p;
        const up = Math.min(p, Math.max(0, rest / -Math.expm1(-step)));
        use(i - first, l, p - up);
        use(i - first + 1, l + step, up);
      }
      return first;
    };
    let [mean, square] = [0, 0];
    place((high - low) / 2000, (_, l, p) => { mean += l * p; square += l * l * p; });
    const spread = Math.sqrt(times * Math.max(0, square - mean * mean));
    const step = (high - low + 24 * spread) / (n - 4);
    const real = new Float64Array(n);
    const imaginary = new Float64Array(n);
    const first = times * place(step, (i, _, p) => { real[i] += p; });
    fourier(real, imaginary, 1);
    for (let i = 0; i < n; i += 1) {
      const size = Math.hypot(real[i], imaginary[i]) ** times;
      const angle = Math.atan2(imaginary[i], real[i]) * times;
      real[i] = size * Math.cos(angle);
      imaginary[i] = size * Math.sin(angle);
    }
    fourier(real, imaginary, -1);
    const from = Math.round(times * mean / step) - first - n / 2;
    const found = [];
    for (let i = Math.max(from, 1 - first); i < from + n; i += 1) {
      found.push([step * (first + i), Math.max(0, real[(i % n + n) % n] / n)]);
    }
    return found;
  }

  // many equal releases together; `directions` are the losses of one, with the record and without it
  function together(directions, times) {
    const tables = directions.map((direction) => {
      const found = losses(direction, times);
      const above = [[0, 0]]; // probabilities of all losses from here on, with the record and without it
      for (let i = found.length - 1; i >= 0; i -= 1) {
        const [l, p] = found[i];
        const [with_, without] = above[above.length - 1];
        above.push([with_ + p, without + p * Math.exp(-l)]);
      }
      return { found, above: above.reverse() };
    });
    const delta = (epsilon) => Math.max(0, ...tables.map(({ found, above }) => {
      const step = found[1][0] - found[0][0];
      const i = Math.max(0, Math.floor((epsilon - found[0][0]) / step) + 1);
      if (i >= found.length) return 0;
      return above[i][0] - Math.exp(Math.min(epsilon, 700)) * above[i][1];
    }));
    return { delta, tpr: tested(delta, Math.max(...tables.map(({ found }) => found[found.length - 1][0]))) };
  }

  // what a test finds, by the lines of all epsilons up to the largest loss
  function tested(delta, most) {
    const lines = Array.from({ length: 1500 }, (_, i) => {
      const epsilon = most * (i / 1500) ** 2;
      return [Math.exp(Math.min(epsilon, 700)), delta(epsilon)];
    });
    return (alpha) => {
      let least = 1;
      for (const [factor, missed] of lines) {
        least = Math.min(least, missed + factor * alpha, 1 - (1 - missed - alpha) / factor);
      }
      return least;
    };
  }

  // all steps of DP-SGD; each takes each record with probability `rate`
  function dpSgd({ sigma: noise, rate, steps }) {
    const at = (l) => (l <= Math.log1p(-rate) ? -Infinity : noise ** 2 * Math.log1p(Math.expm1(l) / rate) + 0.5);
    const loss = (x) => Math.log1p(rate * Math.expm1((2 * x - 1) / (2 * noise ** 2)));
    const below = (x) => (1 - rate) * normal(x / noise) + rate * normal((x - 1) / noise);
    const above = (x) => (1 - rate) * normal(-x / noise) + rate * normal((1 - x) / noise);
    const removed = { low: Math.log1p(-rate), high: loss(1 + 8.5 * noise) };
    const added = { low: -loss(8.5 * noise), high: -Math.log1p(-rate) };
    return together([
      { ...removed, member: (l) => above(at(l)), other: (l) => normal(-at(l) / noise) },
      { ...added, member: (l) => normal(at(-l) / noise), other: (l) => below(at(-l)) },
    ], steps);
  }

  // several answers by soft votes: the sum of their losses or their zero-concentrated guarantee, whichever says more
  function softVotes({ beta, answers }) {
    if (answers === 1) return softVote({ beta });
    const width = 2 * beta;
    const rho = answers * beta ** 2 / 2;
    const other = (l) => Math.min(1, Math.max(0, Math.expm1((width - l) / 2) / Math.expm1(width)));
    const member = (l) => softVote({ beta }).tpr(other(l));
    const summed = together([{ low: -width, high: width, member, other }], answers);
    const orders = Array.from({ length: 400 }, (_, i) => 1 + 1e-3 * 1e7 ** (i / 399));
    const concentrated = (epsilon) => Math.min(1, ...orders.map((order) =>
      Math.exp((order - 1) * (rho * order - epsilon) + order * Math.log1p(-1 / order)) / (order - 1)));
    const delta = (epsilon) => Math.min(summed.delta(epsilon), concentrated(epsilon));
    return { delta, tpr: tested(delta, answers * width) };
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

  return { approximate, bagging, density, dpSgd, epsilon, gaussian, laplace, laplaceWins, normal, quantile, randomisedResponse, sigma, softVote, softVotes };
})();

if (typeof module !== "undefined") module.exports = kernel; // node, in the tests
