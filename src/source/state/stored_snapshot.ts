/**
 * A snapshot, and where its credentials come from, as the text of a file, and back.
 *
 * The file carries the SHA-256 digest of its content, and nothing in it is believed before the digest
 * was checked: a file that is cut short, damaged or edited by hand is refused whole. The format number
 * means that content with a right digest has the types of this version; it must rise with every change
 * of {@link Snapshot} or {@link StoredCredentials}, which the test of the format checks.
 *
 * The digest is no signature. An attacker who can write the directory as this user can make a file with
 * a right digest, and choose policy, endpoints, roots and the code of plugins with it. He could do the
 * same when every field was checked for its type. The owner and the mode of the file and its directory
 * keep him out (`state_files.ts`); the certificate, its key, the roots, the service and the expiry are
 * judged again on every start (`store.ts`).
 * @module
 */

import { createHash } from "node:crypto";
import type { StoredState } from "./stored_credentials.ts";

/** Rises whenever the type of what is stored changes, or its meaning. */
const FORMAT = 8;

export type ParsedStored =
  | { readonly kind: "valid"; readonly state: StoredState }
  | { readonly kind: "invalid"; readonly reason: string };

export function formatStored(state: StoredState): string {
  const content = JSON.stringify(state);
  return `{"schema":${FORMAT},"sha256":"${digestOf(content)}","state":${content}}\n`;
}

/** Every format begins with its number. */
const HEAD = /^\{"schema":(\d{1,9})[,}]/;
const BEGIN = /^\{"schema":\d+,"sha256":"([0-9a-f]{64})","state":/;
const END = "}\n";

/** Never throws. The reason quotes nothing of the text, which holds keys. */
export function parseStored(text: string): ParsedStored {
  const [, format = "unknown"] = HEAD.exec(text) ?? [];
  if (format !== String(FORMAT)) {
    return {
      kind: "invalid",
      reason: `another version wrote it: its format is ${format}, and this one reads ${FORMAT}`,
    };
  }
  const [begin = "", digest] = BEGIN.exec(text) ?? [];
  const content = text.slice(begin.length, -END.length);
  if (digest === undefined || !text.endsWith(END) || digestOf(content) !== digest) {
    return { kind: "invalid", reason: "its digest is wrong: it is cut short or was changed" };
  }
  return { kind: "valid", state: JSON.parse(content) as StoredState };
}

function digestOf(content: string): string {
  return createHash("sha256").update(content).digest("hex");
}
