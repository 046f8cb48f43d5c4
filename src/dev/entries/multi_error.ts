/**
 * Several faults in one text, as Consul writes them.
 *
 * @module
 */

/** `""` where there is no fault. */
export function multiError(faults: readonly string[]): string {
  if (faults.length === 0) return "";
  const count = faults.length === 1 ? "1 error" : `${faults.length} errors`;
  return `${count} occurred:\n${faults.map((fault) => `\t* ${fault}\n`).join("")}\n`;
}
