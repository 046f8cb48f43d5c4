/**
 * Checks of certificates and keys that both engines share: our own before use, and objections to a peer's.
 * Deno's TLS library reports most faults of ours only when a handshake fails, so its conditions are checked
 * here first.
 *
 * @module
 */

import { createPrivateKey, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { messageOf } from "../base/mod.ts";
import { parsePem } from "../wire/mod.ts";
import type { PeerCheck, TlsMaterial } from "./port.ts";

/** Curves that both libraries sign with. */
const CURVES: ReadonlySet<string> = new Set(["prime256v1", "secp384r1", "secp521r1"]);

/** See `Engine.tlsFault`. */
export function tlsFault(
  { certPem, keyPem, rootPems }: Pick<TlsMaterial, "certPem" | "keyPem" | "rootPems">,
): string | undefined {
  try {
    for (const rootPem of rootPems) certificatesIn(rootPem, "root");
    // A client may have neither.
    const shown = certPem !== "" || keyPem !== "";
    if (shown) checkPair(certPem, keyPem);
    createSecureContext({ ...(shown && { cert: certPem, key: keyPem }), ca: [...rootPems] });
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

function checkPair(certPem: string, keyPem: string): void {
  const [leaf] = certificatesIn(certPem, "certificate");
  const key = read("key", () => createPrivateKey(keyPem));
  const { asymmetricKeyType: type = "unknown", asymmetricKeyDetails } = key;
  const curve = asymmetricKeyDetails?.namedCurve;
  const isSupported = type === "rsa" || type === "ed25519" ||
    type === "ec" && CURVES.has(curve ?? "");
  if (!isSupported) throw new Error(`the key is of an unsupported kind, ${curve ?? type}`);
  if (!leaf?.checkPrivateKey(key)) throw new Error("the key is not the certificate's");
}

function certificatesIn(pem: string, what: string): X509Certificate[] {
  const blocks = read(what, () => parsePem(pem, { what }))
    .filter(({ label }) => label === "CERTIFICATE");
  if (blocks.length === 0) throw new Error(`there is no ${what}`);
  return blocks.map(({ der }) => read(what, () => new X509Certificate(der)));
}

/** Parsers throw errors of many kinds; all of them mean that `what` cannot be read. */
function read<Value>(what: string, attempt: () => Value): Value {
  try {
    return attempt();
  } catch (cause) {
    throw new Error(`the ${what} cannot be read: ${messageOf(cause)}`, { cause });
  }
}

/** `PresentedPeer.reason`; `verdict` is the library's, `""`: it accepted. */
export function complaintOf(
  check: PeerCheck,
  leaf: Uint8Array | undefined,
  verdict: string,
): string {
  if (check === "ignored") return "";
  if (leaf === undefined) return "no certificate was presented";
  return check === "checked" ? verdict : "";
}

/** More names of authorities than this make every handshake larger, and help no client to choose. */
const NAMED_ROOTS = 20;

/** Whether the TLS library gets the roots. It names them to clients, and verifies by them if `checked`. */
export function needsRoots({ peerCheck, rootPems }: TlsMaterial): boolean {
  if (peerCheck === "checked") return true;
  return peerCheck === "shown" && rootPems.length > 0 && rootPems.length <= NAMED_ROOTS;
}
