/**
 * YAML as a value, or the place of its fault. Strict: no tags, no second document, no duplicate keys, few
 * aliases. The parser is loaded on demand.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";

/** References to anchors; and for each anchor, one per containing anchor. */
const ALIAS_LIMIT = 100;
/** Ancestors of a node, pairs of a map included: some 30 levels. The walk costs the square of it. */
const DEPTH_LIMIT = 64;

/** Throws `credentials_invalid` with the place; never shows the content. */
export async function parseYaml(text: string): Promise<unknown> {
  const yaml = await import("yaml");
  const lines = new yaml.LineCounter();
  const document = yaml.parseDocument(text, {
    version: "1.2",
    schema: "core",
    strict: true,
    merge: false,
    resolveKnownTags: false,
    // The parser's own check takes time in the square of the keys' number.
    uniqueKeys: false,
    // The parser's messages would show the line.
    prettyErrors: false,
    lineCounter: lines,
  });
  const fail = (offset: number, fact: string): never => {
    const { line, col } = lines.linePos(offset);
    throw new ProxyError("credentials_invalid", `line ${line}, column ${col}: ${fact}`);
  };
  const [fault] = [...document.errors, ...document.warnings];
  if (fault) fail(fault.pos[0], FACTS[fault.code] ?? fault.code.toLowerCase().replaceAll("_", " "));
  const anchors = new Set<string>();
  let aliases = 0;
  const note = (node: { readonly anchor?: string | undefined }) => {
    if (node.anchor !== undefined) anchors.add(node.anchor);
  };
  const checkDepth = (path: readonly unknown[], offset = 0) => {
    if (path.length > DEPTH_LIMIT) fail(offset, FACTS.RESOURCE_EXHAUSTION ?? "");
  };
  yaml.visit(document, {
    Scalar: (_key, node) => note(node),
    Seq(_key, node, path) {
      checkDepth(path, node.range?.[0]);
      note(node);
    },
    Alias(_key, { source, range }) {
      if (!anchors.has(source)) fail(range?.[0] ?? 0, "an alias has no anchor");
      if (++aliases > ALIAS_LIMIT) fail(range?.[0] ?? 0, `it has more than ${ALIAS_LIMIT} aliases`);
    },
    Map(_key, node, path) {
      checkDepth(path, node.range?.[0]);
      note(node);
      const seen = new Set<string>();
      for (const { key } of node.items) {
        const offset = yaml.isNode(key) ? key.range?.[0] ?? 0 : 0;
        if (!yaml.isScalar(key)) return fail(offset, "a key must be a text");
        // 1 and "1" are the same name of a member.
        const name = String(key.value);
        if (seen.has(name)) fail(offset, "the key is given twice");
        seen.add(name);
      }
    },
  });
  try {
    return document.toJS({ maxAliasCount: ALIAS_LIMIT });
  } catch (error) {
    if (error instanceof RangeError) return fail(0, FACTS.RESOURCE_EXHAUSTION ?? "");
    // The only other reason: unknown anchors are refused above.
    return fail(0, `it has aliases of more than ${ALIAS_LIMIT} values`);
  }
}

/** Texts for the parser's codes. */
const FACTS: Readonly<Record<string, string>> = {
  TAG_RESOLVE_FAILED: "tags are not taken",
  MULTIPLE_DOCS: "it has more than one document",
  RESOURCE_EXHAUSTION: "it is nested too deeply",
  TAB_AS_INDENT: "a tab cannot indent",
};
