/** The bytes of a `DataSource`, bounded. Errors name the source and never show its content. @module */

import { ProxyError } from "../../base/mod.ts";
import type { DataSource } from "../model/secret.ts";

/** Reads a whole regular file; throws `credentials_invalid` that names it. */
export type ReadSource = (path: string, limitBytes: number) => Promise<Uint8Array>;

export type Environment = Readonly<Record<string, string | undefined>>;

/** Certificates, keys, passwords, staples. */
export const FILE_LIMIT_BYTES = 1 << 20;
/** Revocation lists, and the system's roots. */
export const CRL_LIMIT_BYTES = 4 << 20;

/** Why the TLS library does not accept material; `undefined`: it does. */
export type TlsFault = (
  material: {
    readonly certPem: string;
    readonly keyPem: string;
    readonly rootPems: readonly string[];
  },
) => string | undefined;

export interface LoadContext {
  readonly read: ReadSource;
  readonly env: Environment;
  readonly nowMs: number;
  /** The engine's, which may read more of a certificate than we do. */
  readonly tlsFault: TlsFault;
}

export interface SourceBytes {
  readonly bytes: Uint8Array;
  /** `private key in /etc/tls/web.key`, `private key (inline)`. */
  readonly what: string;
}

/** `role`: of the source in errors, `certificate chain`. */
export async function resolveSource(
  source: DataSource,
  context: LoadContext,
  { role, limitBytes = FILE_LIMIT_BYTES }: { readonly role: string; readonly limitBytes?: number },
): Promise<SourceBytes> {
  const what = describeSource(source, role);
  const bytes = await bytesOf(source, context, { what, limitBytes });
  if (bytes.length > limitBytes) fail(what, `it has more than ${limitBytes} bytes`);
  if (bytes.length === 0) fail(what, "it is empty");
  return { bytes, what };
}

export function describeSource(source: DataSource, role: string): string {
  switch (source.kind) {
    case "file":
      return `${role} in ${source.path}`;
    case "inline":
      return `${role} (inline)`;
    case "environment":
      return `${role} in environment variable ${source.variable}`;
  }
}

/**
 * PEM as text, one character a byte, because comments around blocks may be in any encoding. A byte order
 * mark is removed; UTF-16, which some editors write, is refused by its name.
 */
export function textOf({ bytes, what }: SourceBytes): string {
  const [first, second] = bytes;
  if ((first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)) {
    fail(what, "it is UTF-16 text; save it as plain ASCII");
  }
  const start = first === 0xef && second === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  let text = "";
  // `fromCharCode` takes bytes as arguments, whose number is limited.
  for (let at = start; at < bytes.length; at += 8192) {
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return text;
}

/** Names the blocks that a text has instead, after "it has no such block". Labels are not secret. */
export function foundInstead(text: string): string {
  const labels = new Set<string>();
  for (const [, label] of text.matchAll(/^-----BEGIN ([A-Z0-9 ]{1,64})-----/gm)) {
    if (label !== undefined && labels.size < 5) labels.add(label);
  }
  if (labels.size > 0) return `, only ${[...labels].join(", ")}`;
  // deno-lint-ignore no-control-regex -- a SEQUENCE, and bytes that no text has
  const isDer = text.startsWith("0") && /[\x00-\x08\x7f-\xff]/.test(text.slice(0, 64));
  return isDer ? ": it is binary, DER or PKCS#12; make it PEM, or give PKCS#12 as pkcs12" : "";
}

async function bytesOf(
  source: DataSource,
  { read, env }: LoadContext,
  { what, limitBytes }: { readonly what: string; readonly limitBytes: number },
): Promise<Uint8Array> {
  switch (source.kind) {
    case "file":
      return await read(source.path, limitBytes);
    case "inline":
      return source.bytes;
    case "environment": {
      const value = env[source.variable];
      if (value === undefined) return fail(what, "there is no such variable");
      return new TextEncoder().encode(value);
    }
  }
}

export function fail(what: string, fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot read ${what}: ${fact}`);
}

export function refuse(fact: string): never {
  throw new ProxyError("credentials_invalid", `Cannot use credentials: ${fact}`);
}

/** Faults of the DER reader, which names a certificate, as faults of `what`. */
export async function asFault<T>(what: string, attempt: () => Promise<T> | T): Promise<T> {
  try {
    return await attempt();
  } catch (error) {
    if (error instanceof ProxyError && error.code === "credentials_invalid") throw error;
    // A runtime's message about bytes that it cannot read may show them.
    const fact = error instanceof ProxyError
      ? error.message.replace(/^Cannot read certificate: /, "")
      : "it is damaged";
    throw new ProxyError("credentials_invalid", `Cannot read ${what}: ${fact}`, { cause: error });
  }
}

/** Faults of "the certificate" or "the validation" as faults of `what`. */
export function asUseFault<T>(what: string, attempt: () => T): T {
  try {
    return attempt();
  } catch (error) {
    if (!(error instanceof ProxyError)) throw error;
    const fact = error.message.replace(/^Cannot [^:]{1,60}: /, "");
    const message = `Cannot use ${what}: ${fact}`;
    throw new ProxyError("credentials_invalid", message, { cause: error });
  }
}
