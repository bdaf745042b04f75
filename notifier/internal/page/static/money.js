// Amounts of US dollars, formatted as by package schemas/money.

// usd formats dollars and cents; an unknown amount is –.
export function usd(amount) {
  if (typeof amount !== "number" || !(Math.abs(amount) < 1e13)) return "–";
  if (amount < 0) return "-" + usd(-amount);
  if (amount > 0 && amount < 0.01) return "<$0.01";
  const all = String(Math.floor(amount * 100 + 0.5)).padStart(3, "0");
  return "$" + all.slice(0, -2).replace(/\B(?=(\d{3})+$)/g, ",") + "." + all.slice(-2);
}
