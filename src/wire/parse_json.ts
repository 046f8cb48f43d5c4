/**
 * JSON from outside. Its cost in memory is bounded before it is parsed: a few megabytes of brackets become
 * some hundred megabytes of empty lists.
 *
 * @module
 */

/** Far deeper than any reply of Consul. */
const DEPTH_LIMIT = 64;
/** Lists and objects of a text; one of eight characters holds something already. */
const FEW_CONTAINERS = 1_024;
const CHARACTERS_PER_CONTAINER = 8;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Throws a SyntaxError; for an exceeded bound its message quotes nothing. */
export function parseJson(text: string): unknown {
  const fault = jsonCost(text);
  if (fault !== undefined) throw new SyntaxError(fault);
  return JSON.parse(text);
}

/** The bound that the text exceeds; undefined: none, whether it is JSON or not. */
export function jsonCost(text: string): string | undefined {
  const most = FEW_CONTAINERS + text.length / CHARACTERS_PER_CONTAINER;
  let depth = 0;
  let containers = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = stringEnd(text, at);
        break;
      case OPEN_LIST:
      case OPEN_OBJECT:
        if (++depth > DEPTH_LIMIT) return "it is nested too deeply";
        if (++containers > most) return "it has too many lists and objects";
        break;
      case CLOSE_LIST:
      case CLOSE_OBJECT:
        depth--;
    }
  }
  return undefined;
}

/** End of the string that begins there; a string without an end takes the rest of the text. */
function stringEnd(text: string, at: number): number {
  let end = text.indexOf('"', at + 1);
  while (end > 0 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end < 0 ? text.length : end;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++;
  return backslashes % 2 === 1;
}
