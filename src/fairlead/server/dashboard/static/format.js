// Formats numbers and durations as the server does.

const { decimal, group, least } = document.documentElement.dataset;

export function number(value) {
  const [whole, decimals] = String(Math.abs(value)).split(".");
  const grouped = Math.abs(value) >= Number(least) ? whole.replace(/\B(?=(\d{3})+$)/g, group) : whole;
  return (value < 0 ? "−" : "") + grouped + (decimals ? decimal + decimals : "");
}

const SYMBOLS = [[86400, "d"], [3600, "h"], [60, "min"]];

export function span(seconds) {
  if (seconds > 0 && seconds < 0.1) return `${number(Math.max(1, Math.round(1000 * seconds)))} ms`;
  const rounded = Math.round(Math.max(0, seconds) * 10) / 10;
  if (rounded > 0 && rounded < 10) return `${tenths(rounded)} s`;
  for (const [size, symbol] of SYMBOLS) {
    if (rounded >= 2 * size) return `${number(Math.round(rounded / size))} ${symbol}`;
  }
  return `${number(Math.round(rounded))} s`;
}

export function balance(seconds) {
  return (seconds > 0 ? "+" : seconds < 0 ? "−" : "") + span(Math.abs(seconds));
}

export function tenths(value) {
  return value.toFixed(1).replace(".", decimal);
}
