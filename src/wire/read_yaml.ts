/**
 * YAML from outside: 1.2 with the core schema, without tags and merge keys; bounded in aliases and depth. The
 * library is loaded on first use. Reasons never quote the text, which may contain private keys.
 *
 * @module
 */

import type { Document, Pair, ParsedNode } from "yaml";
import type { JsonPosition, JsonPositions } from "./parse_json.ts";

/** References to anchors; and for each anchor, one per containing anchor. */
const ALIAS_LIMIT = 100;
/** Ancestors of a node, pairs of a map included: some 30 levels. The walk costs the square of it. */
const DEPTH_LIMIT = 64;

class YamlFault extends Error {
  readonly offset: number;

  constructor(offset: number, reason: string) {
    super(reason);
    this.offset = offset;
  }
}

/** Reads one document. Never rejects; duplicate keys are a fault. */
export async function readYaml(text: string): Promise<JsonPositions> {
  const yaml = await import("yaml");
  const lines = new yaml.LineCounter();
  const placeOf = (offset: number): JsonPosition => {
    const { line, col } = lines.linePos(offset);
    // An empty text has no lines.
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  try {
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
    checkDocument(document, yaml);
    const value = valueOf(document);
    return {
      kind: "valid",
      value,
      placeOf: (path) => placeOf(offsetOf(document, path, yaml)),
      duplicates: [],
    };
  } catch (error) {
    // The parser descends with the text.
    const fault = error instanceof RangeError ? new YamlFault(0, TOO_DEEP) : error;
    if (!(fault instanceof YamlFault)) throw error;
    return { kind: "invalid", reason: fault.message, place: placeOf(fault.offset) };
  }
}

type Yaml = typeof import("yaml");

function checkDocument(document: Document.Parsed, yaml: Yaml): void {
  const fail = (offset: number, reason: string): never => {
    throw new YamlFault(offset, reason);
  };
  const [fault] = [...document.errors, ...document.warnings];
  if (fault) fail(fault.pos[0], FACTS[fault.code] ?? fault.code.toLowerCase().replaceAll("_", " "));
  const anchors = new Set<string>();
  let aliases = 0;
  const note = (node: { readonly anchor?: string | undefined }) => {
    if (node.anchor !== undefined) anchors.add(node.anchor);
  };
  const checkDepth = (path: readonly unknown[], offset = 0) => {
    if (path.length > DEPTH_LIMIT) fail(offset, TOO_DEEP);
  };
  yaml.visit(document, {
    Scalar: (_key, node) => note(node),
    Seq(_key, node, path) {
      checkDepth(path, node.range?.[0]);
      note(node);
    },
    Alias(_key, { source, range }, path) {
      const offset = range?.[0] ?? 0;
      if (!anchors.has(source)) fail(offset, "an alias has no anchor");
      const isInside = path.some((node) => yaml.isCollection(node) && node.anchor === source);
      if (isInside) fail(offset, "an alias is inside its own anchor");
      if (++aliases > ALIAS_LIMIT) fail(offset, `it has more than ${ALIAS_LIMIT} aliases`);
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
}

function valueOf(document: Document.Parsed): unknown {
  try {
    return document.toJS({ maxAliasCount: ALIAS_LIMIT });
  } catch (error) {
    if (error instanceof RangeError) throw error;
    // The only other reason: unknown anchors are refused above.
    throw new YamlFault(0, `it has aliases of more than ${ALIAS_LIMIT} values`);
  }
}

/** Offset of a member's key, as for JSON; without such a path that of the nearest value around it. */
function offsetOf(
  document: Document.Parsed,
  path: readonly (string | number)[],
  yaml: Yaml,
): number {
  let node: unknown = document.contents;
  let offset = rangeOf(document.contents);
  for (const part of path) {
    if (yaml.isMap(node)) {
      const pair = (node.items as Pair<ParsedNode, ParsedNode | null>[])
        .find(({ key }) => yaml.isScalar(key) && String(key.value) === part);
      if (!pair) break;
      offset = rangeOf(pair.key);
      node = pair.value;
    } else if (yaml.isSeq(node) && typeof part === "number") {
      const item = node.items[part] as ParsedNode | undefined;
      if (!item) break;
      offset = rangeOf(item);
      node = item;
    } else break; // The members of an alias stand elsewhere: the place is the alias.
  }
  return offset;
}

function rangeOf(node: ParsedNode | null): number {
  return node?.range[0] ?? 0;
}

const TOO_DEEP = "it is nested too deeply";
const FACTS: Readonly<Record<string, string>> = {
  TAG_RESOLVE_FAILED: "tags are not taken",
  MULTIPLE_DOCS: "it has more than one document",
  RESOURCE_EXHAUSTION: TOO_DEEP,
  TAB_AS_INDENT: "a tab cannot indent",
};
