/**
 * Texts in Consul's filter expressions.
 *
 * @module
 */

/** `text` as a value; a double quote is written as its number, since Consul's grammar ends there. */
export function filterText(text: string): string {
  return `"${JSON.stringify(text).slice(1, -1).replaceAll('\\"', "\\x22")}"`;
}

/** A pattern, for `matches`, that fits `text` alone, whatever its case. */
export function anyCase(text: string): string {
  const literal = Array.from(
    text,
    (char) => /^[a-z0-9]$/i.test(char) ? char : `\\x{${char.codePointAt(0)?.toString(16)}}`,
  );
  return filterText(`(?i)^${literal.join("")}$`);
}
