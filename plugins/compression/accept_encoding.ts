/**
 * Which coding a caller likes best (RFC 9110 12.5.3).
 *
 * @module
 */

const WEIGHT = /^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$/;

/**
 * Of `offered`, of which the first is taken where several are liked alike; `undefined`: none, which is also
 * so where a caller says nothing. What cannot be read counts as not said.
 */
export function codingFor<C extends string>(
  values: readonly string[],
  offered: readonly C[],
): C | undefined {
  const weights = weightsOf(values);
  const other = weights.get("*") ?? 0;
  let best: C | undefined;
  // As they are is always possible, but no wish unless it is said.
  let weight = weights.get("identity") ?? 0;
  for (const coding of offered) {
    const own = weights.get(coding) ?? other;
    if (own > weight || (best === undefined && own > 0 && own === weight)) {
      best = coding;
      weight = own;
    }
  }
  return best;
}

function weightsOf(values: readonly string[]): ReadonlyMap<string, number> {
  const weights = new Map<string, number>();
  for (const part of values.join(",").toLowerCase().split(",")) {
    const [name = "", ...parameters] = part.split(";").map((text) => text.trim());
    const said = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2) ?? "1";
    if (name !== "" && WEIGHT.test(said)) weights.set(name, Number(said));
  }
  return weights;
}
