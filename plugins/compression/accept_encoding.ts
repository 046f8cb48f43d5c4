/** Negotiates the content coding (RFC 9110 12.5.3). @module */

const WEIGHT = /^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$/;

/**
 * The coding of `offered` with the highest weight; of equal ones the first. `undefined`: none, also if the
 * request has no preference. Invalid elements are ignored.
 */
export function codingFor<C extends string>(
  values: readonly string[],
  offered: readonly C[],
): C | undefined {
  const weights = weightsOf(values);
  const other = weights.get("*") ?? 0;
  let best: C | undefined;
  // `identity` is always acceptable, but counts as preferred only if it is listed.
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
