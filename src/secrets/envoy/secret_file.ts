/** Envoy's secret files. As in Envoy, paths in them are relative to the working directory. @module */

import * as v from "valibot";
import { messageOf, ProxyError } from "../../base/mod.ts";
import { checked, isRecord, list, parsed, type SchemaOf } from "../../base/schema.ts";
import { readJson } from "../../wire/mod.ts";
import { type FileProviderOptions, followSpec } from "../file/file_hub.ts";
import type { FileEvents, SecretRef, SecretWatch } from "../model/plan.ts";
import type { SecretSpec, SecretType } from "../model/secret.ts";
import { formatProblems, type NamedSpec, secretSchema, SPEC_NOUNS } from "./envoy_secret.ts";
import { anyOf, message } from "./message.ts";

export const SECRET_FILE_LIMIT_BYTES = 1 << 20;

interface ParsedSecretFile {
  readonly spec: SecretSpec;
  /** `version_info`; "" if there is none. */
  readonly version: string;
}

/** Throws `credentials_invalid` that names the file and the fault; never shows a value. */
export async function parseSecretFile(
  text: string,
  { path, wantedName, wantedType }: {
    /** Its extension says the format: `.yaml`, `.yml` or `.json`. */
    readonly path: string;
    /** The secret must have this name, or none; "": any name will do. */
    readonly wantedName: string;
    /** Absent: any type will do. */
    readonly wantedType?: SecretType;
  },
): Promise<ParsedSecretFile> {
  const fail = (fact: string): never => {
    throw new ProxyError("credentials_invalid", `Cannot use the secret in ${path}: ${fact}`);
  };
  if (text.length > SECRET_FILE_LIMIT_BYTES) {
    fail(`it is longer than ${SECRET_FILE_LIMIT_BYTES} characters`);
  }
  const value = await valueOf(text.replace(/^\ufeff/, ""), { path, fail });
  const schema = isRecord(value) && Object.hasOwn(value, "resources") ? RESPONSE : BARE;
  const result = parsed(schema, value, []);
  if (result.kind === "invalid") return fail(formatProblems(result.problems, "it"));
  const { name, spec, version } = result.output;
  if (wantedName !== "" && name !== "" && name !== wantedName) {
    fail(`it has "${name}", and "${wantedName}" is wanted`);
  }
  if (wantedType && spec.type !== wantedType) {
    fail(`it has a ${SPEC_NOUNS[spec.type]}, and a ${SPEC_NOUNS[wantedType]} is wanted`);
  }
  return { spec, version };
}

async function valueOf(
  text: string,
  { path, fail }: { readonly path: string; fail(fact: string): never },
): Promise<unknown> {
  switch (/\.[^./\\]*$/.exec(path)?.[0].toLowerCase()) {
    case ".yaml":
    case ".yml":
      try {
        return await parseYaml(text);
      } catch (error) {
        return fail(`it is not YAML that can be taken: ${messageOf(error)}`);
      }
    case ".json": {
      const json = readJson(text);
      if (json.kind === "invalid") {
        const { line, column } = json.place;
        return fail(`it is not JSON: line ${line}, column ${column}: ${json.reason}`);
      }
      const [twice] = json.duplicates;
      if (!twice) return json.value;
      const { line, column } = json.placeOf(twice.path);
      return fail(`line ${line}, column ${column}: the key is given twice`);
    }
    case ".pb":
    case ".pb_text":
      return fail("protocol buffers in binary and text form are not read; write YAML or JSON");
    default:
      return fail("its name must end in .yaml, .yml or .json");
  }
}

const SECRET_TYPE = "envoy.extensions.transport_sockets.tls.v3.Secret";
const SECRET = secretSchema({ allowFiles: true });
const TYPED = anyOf({ [SECRET_TYPE]: SECRET });

type Content = NamedSpec & Pick<ParsedSecretFile, "version">;

const RESPONSE: SchemaOf<Content> = checked(
  message({
    versionInfo: v.optional(v.pipe(v.string("must be a text"), v.maxLength(1_024, "is too long"))),
    resources: list(TYPED, 1),
    typeUrl: v.optional(
      v.picklist(["", `type.googleapis.com/${SECRET_TYPE}`], "must be the type of secrets"),
    ),
    // Fields of streams, without a meaning in a file.
    nonce: v.optional(v.unknown()),
    canary: v.optional(v.unknown()),
    controlPlane: v.optional(v.unknown()),
  }),
  ({ resources: [secret], versionInfo = "" }, report): Content | undefined =>
    secret ? { ...secret, version: versionInfo } : report(["resources"], "must have one secret"),
);

const BARE: SchemaOf<Content> = checked(
  v.lazy((value) => isRecord(value) && Object.hasOwn(value, "@type") ? TYPED : SECRET),
  (secret) => ({ ...secret, version: "" }),
);

/** Follows a reference of source kind `secret_file`. */
export function watchSecretFile(
  { source, name, type, defaults }: SecretRef,
  options: FileProviderOptions,
  events: FileEvents,
): SecretWatch {
  if (source.kind !== "secret_file") {
    throw new ProxyError("internal", `Cannot follow a secret of source "${source.kind}" in a file`);
  }
  const { path, watchedDirectory } = source;
  let parts: SecretWatch | undefined;
  let closed = false;
  // The secret is good when both are.
  const faulty = { description: false, parts: false };
  const faultsOf = (which: "description" | "parts") => ({
    onRejected(reason: string) {
      faulty[which] = true;
      events.onRejected(reason);
    },
    onRecovered() {
      faulty[which] = false;
      if (!faulty.description && !faulty.parts) events.onRecovered();
    },
  });
  const description = options.hub.follow<ParsedSecretFile>({
    // Keys may be inline.
    files: [{ path, limitBytes: SECRET_FILE_LIMIT_BYTES, secret: true }],
    ...watchedDirectory && { directory: watchedDirectory.path },
    watch: true,
    async load(read) {
      const text = new TextDecoder().decode(await read(path, SECRET_FILE_LIMIT_BYTES));
      return await parseSecretFile(text, { path, wantedName: name, wantedType: type });
    },
  }, {
    onValue({ spec, version }) {
      if (closed) return;
      faulty.description = false;
      parts?.close();
      parts = followSpec(spec, { ...options, watch: true, defaults }, {
        onSecret(secret) {
          faulty.parts = false;
          events.onSecret(secret, version);
        },
        ...faultsOf("parts"),
      });
    },
    ...faultsOf("description"),
  });
  return {
    async refresh() {
      await description.refresh();
      await parts?.refresh();
    },
    close() {
      closed = true;
      description.close();
      parts?.close();
    },
  };
}

/** References to anchors; and for each anchor, one per containing anchor. */
const ALIAS_LIMIT = 100;
/** Ancestors of a node, pairs of a map included: some 30 levels. The walk costs the square of it. */
const DEPTH_LIMIT = 64;

/** Throws `credentials_invalid` with the place; never shows the content. */
async function parseYaml(text: string): Promise<unknown> {
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

const FACTS: Readonly<Record<string, string>> = {
  TAG_RESOLVE_FAILED: "tags are not taken",
  MULTIPLE_DOCS: "it has more than one document",
  RESOURCE_EXHAUSTION: "it is nested too deeply",
  TAB_AS_INDENT: "a tab cannot indent",
};
