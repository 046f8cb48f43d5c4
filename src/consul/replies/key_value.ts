/** Single reads of Consul's key/value store. @module */

import { Buffer } from "node:buffer";
import * as v from "valibot";
import { ProxyError } from "../../base/mod.ts";
import type { Client } from "../http/client.ts";
import { readQuery } from "./questions.ts";
import { list, object, readReply, text } from "./schema.ts";

/** Consul writes the value of an empty key as null. */
const Rows = list(object({ Value: v.nullish(text, "") }));

/** Fails with `agent_not_found` where there is no such key, or the token may not read it. */
export async function askKey(
  client: Client,
  key: string,
  terms: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<Uint8Array> {
  const name = JSON.stringify(key);
  const { query, flags } = readQuery(client, { stale: true, datacenter: "" });
  const reply = await client.call({
    resource: "kv",
    what: `read the key ${name}`,
    needs: `key:read on ${name}`,
    path: `/v1/kv/${key.split("/").map(encodeURIComponent).join("/")}`,
    query,
    flags,
    absentIsAnswer: true,
    ...terms,
  });
  const [row] = reply.json === null ? [] : readReply(Rows, reply.json, `the key ${name}`);
  if (row) return Buffer.from(row.Value, "base64");
  throw new ProxyError("agent_not_found", `There is no key ${name}, or the token may not read it`);
}
