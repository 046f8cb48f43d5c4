/**
 * Where a text stops being JSON. The engines' own messages differ and quote the text around the place,
 * which a reply with a private key must not have done to it.
 *
 * @module
 */

const TOKENS =
  // deno-lint-ignore no-control-regex -- JSON forbids them within strings
  /[ \t\n\r]+|[{}[\],:]|"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

type Expect =
  | "value"
  | "value or end"
  | "key"
  | "key or end"
  | "colon"
  | "comma or end"
  | "nothing";

/** The offset of the first character that cannot continue a JSON text; its length when cut short. */
export function locateJsonError(text: string): number {
  const open: string[] = [];
  let expect: Expect = "value";
  let at = 0;
  const after = (): Expect => open.length ? "comma or end" : "nothing";
  while (at < text.length) {
    TOKENS.lastIndex = at;
    const token = TOKENS.exec(text)?.[0];
    if (token === undefined) return at;
    const kind = token[0] ?? "";
    if (!/\s/.test(kind)) {
      const next = step(kind, { expect, open, after });
      if (!next) return at;
      expect = next;
    }
    at += token.length;
  }
  return at;
}

function step(
  kind: string,
  state: { readonly expect: Expect; readonly open: string[]; readonly after: () => Expect },
): Expect | undefined {
  const { expect, open, after } = state;
  const wantsValue = expect === "value" || expect === "value or end";
  const atEnd = expect === "value or end" || expect === "key or end" || expect === "comma or end";
  switch (kind) {
    case "{":
    case "[":
      if (!wantsValue) return undefined;
      open.push(kind);
      return kind === "{" ? "key or end" : "value or end";
    case "}":
    case "]":
      if (!atEnd || open.pop() !== (kind === "}" ? "{" : "[")) return undefined;
      return after();
    case ",":
      if (expect !== "comma or end") return undefined;
      return open[open.length - 1] === "{" ? "key" : "value";
    case ":":
      return expect === "colon" ? "value" : undefined;
    case '"':
      if (expect === "key" || expect === "key or end") return "colon";
      return wantsValue ? after() : undefined;
    default:
      return wantsValue ? after() : undefined;
  }
}
