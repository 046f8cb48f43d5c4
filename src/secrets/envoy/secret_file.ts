/** Envoy's secret files. As in Envoy, paths in them are relative to the working directory. @module */

import * as v from "valibot";
import { ProxyError } from "../../base/mod.ts";
import { checked, isRecord, list, parsed, type SchemaOf } from "../../base/schema.ts";
import { readJson, readYaml } from "../../wire/mod.ts";
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
    case ".yml": {
      const read = await readYaml(text);
      if (read.kind === "valid") return read.value;
      const { line, column } = read.place;
      const at = `line ${line}, column ${column}`;
      return fail(`it is not YAML that can be taken: ${at}: ${read.reason}`);
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
