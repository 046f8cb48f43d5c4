/**
 * Envoy's secret files (`path_config_source`): YAML or JSON by the file's extension, with one `Secret`,
 * bare or as the only resource of a `DiscoveryResponse`. Names of files in it are relative to the
 * process' working directory, as in Envoy, and not to the file.
 *
 * @module
 */

import * as v from "valibot";
import { messageOf, ProxyError } from "../../base/mod.ts";
import { readJson } from "../../wire/mod.ts";
import type { SecretType } from "../secret.ts";
import type { SecretSpec } from "../spec.ts";
import { checked, isRecord, list, problemOf, type SchemaOf } from "../../base/schema.ts";
import { anyOf, message } from "./message.ts";
import { formatProblems, type NamedSpec, secretSchema } from "./envoy_secret.ts";
import { parseYaml } from "./yaml.ts";

/** Longest file that is read. */
export const SECRET_FILE_LIMIT_BYTES = 1 << 20;

export interface SecretFileOptions {
  /** Says what it is: `.yaml`, `.yml` or `.json`. */
  readonly path: string;
  /** The secret must have this name, or none; "": any will do. */
  readonly wantedName: string;
  /** Absent: either. */
  readonly wantedType?: SecretType;
}

export interface ParsedSecretFile {
  readonly spec: SecretSpec;
  /** `version_info`; "" where it has none. */
  readonly version: string;
}

/** Fails with `credentials_invalid`, naming the file and what is wrong; never shows a value. */
export async function parseSecretFile(
  text: string,
  options: SecretFileOptions,
): Promise<ParsedSecretFile> {
  const { path, wantedName, wantedType } = options;
  const fail = (fact: string): never => {
    throw new ProxyError("credentials_invalid", `Cannot use the secret in ${path}: ${fact}`);
  };
  if (text.length > SECRET_FILE_LIMIT_BYTES) {
    fail(`it is longer than ${SECRET_FILE_LIMIT_BYTES} characters`);
  }
  const value = await valueOf(text.replace(/^\ufeff/, ""), { path, fail });
  const schema = isRecord(value) && Object.hasOwn(value, "resources") ? RESPONSE : BARE;
  const result = v.safeParse(schema, value, { abortPipeEarly: true });
  if (!result.success) return fail(formatProblems(result.issues.map(problemOf), "it"));
  const { secret: { name, spec }, version } = result.output;
  if (wantedName !== "" && name !== "" && name !== wantedName) {
    fail(`it has "${name}", and "${wantedName}" is wanted`);
  }
  if (wantedType && spec.type !== wantedType) {
    fail(`it has a ${NOUNS[spec.type]}, and a ${NOUNS[wantedType]} is wanted`);
  }
  return { spec, version };
}

const NOUNS = { certificate: "certificate", validation: "validation context" } as const;

async function valueOf(
  text: string,
  options: { readonly path: string; fail(fact: string): never },
): Promise<unknown> {
  const { path, fail } = options;
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

interface Content {
  readonly secret: NamedSpec;
  readonly version: string;
}

const RESPONSE: SchemaOf<Content> = checked(
  message({
    versionInfo: v.optional(v.pipe(v.string("must be a text"), v.maxLength(1_024, "is too long"))),
    resources: list(TYPED, 1),
    typeUrl: v.optional(
      v.picklist(["", `type.googleapis.com/${SECRET_TYPE}`], "must be the type of secrets"),
    ),
    // These belong to streams; in a file they say nothing.
    nonce: v.optional(v.unknown()),
    canary: v.optional(v.unknown()),
    controlPlane: v.optional(v.unknown()),
  }),
  ({ resources: [secret], versionInfo = "" }, report): Content | undefined =>
    secret ? { secret, version: versionInfo } : report(["resources"], "must have one secret"),
);

const BARE: SchemaOf<Content> = checked(
  bareSecret(),
  (secret) => ({ secret, version: "" }),
);

/** A secret with its type or without. */
function bareSecret(): SchemaOf<NamedSpec> {
  return v.lazy((value) => isRecord(value) && Object.hasOwn(value, "@type") ? TYPED : SECRET);
}
