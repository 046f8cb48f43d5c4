/**
 * The last filter of text for people: content from strangers or variables must neither act on a terminal,
 * nor change the order of reading, nor be a password.
 *
 * @module
 */

/** C0 but tab and line feed, DEL and C1, marks and overrides of direction, Unicode's own line ends. */
const UNSEEN =
  // deno-lint-ignore no-control-regex -- these are what must not get through
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const UNSEEN_ONE = new RegExp(UNSEEN.source);
/** The length bounds the search in text that a stranger may have written. */
const USERINFO_OF_URL = /:\/\/\S{0,512}@/g;
/** `user:password@host` alone. */
const USERINFO = /(^|[\s"'=(,])[^\s"'=(,:@/]{1,256}:[^\s"',@]{1,256}@(?=[\w.[])/g;
const NOT_SHOWN = "(not shown)";

/** Whether {@link escapeUnseen} would change it. */
export function hasUnseen(text: string): boolean {
  return UNSEEN_ONE.test(text);
}

/** Escapes invisible and reordering characters as JSON does; `text` may be JSON. */
export function escapeUnseen(text: string): string {
  return text.replace(
    UNSEEN,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** `text` without user and password before the `@` of an address. */
export function maskUserinfo(text: string): string {
  if (!text.includes("@")) return text;
  return text.replace(USERINFO_OF_URL, `://${NOT_SHOWN}@`).replace(USERINFO, `$1${NOT_SHOWN}@`);
}

/** Both filters, for a terminal. */
export function printable(text: string): string {
  return escapeUnseen(maskUserinfo(text));
}
