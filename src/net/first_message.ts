/**
 * A {@link ServerTlsChooser} asked, the same way by both engines, and what a client is told that gets no
 * handshake.
 *
 * @module
 */

import { messageOf } from "../base/mod.ts";
import type { ClientHello } from "../wire/mod.ts";
import type { ServerTls, ServerTlsChooser } from "./port.ts";

/** Alerts that end a handshake before it began (RFC 8446 6.2). */
const ALERT = { decode_error: 50, internal_error: 80, unrecognized_name: 112 } as const;

export type TlsChoice =
  | { readonly kind: "chosen"; readonly tls: ServerTls }
  | { readonly kind: "refused"; readonly reason: string; readonly alert: keyof typeof ALERT };

/** Never throws and never rejects. */
export function choiceOf(
  chooser: ServerTlsChooser,
  hello: ClientHello,
): TlsChoice | Promise<TlsChoice> {
  try {
    const answer = chooser.choose(hello);
    if (!(answer instanceof Promise)) return choice(answer, hello);
    return answer.then((tls) => choice(tls, hello), failed);
  } catch (error) {
    return failed(error);
  }
}

/** As the whole of a record in plain text: no key was agreed on yet. */
export function fatalAlert(alert: keyof typeof ALERT): Uint8Array {
  return Uint8Array.of(0x15, 3, 3, 0, 2, 2, ALERT[alert]);
}

function choice(tls: ServerTls | undefined, { serverName }: ClientHello): TlsChoice {
  if (tls) return { kind: "chosen", tls };
  const reason = serverName === undefined
    ? "no certificate for a client that names no host"
    : `no certificate for "${serverName}"`;
  return { kind: "refused", reason, alert: "unrecognized_name" };
}

function failed(error: unknown): TlsChoice {
  const reason = `cannot choose a certificate: ${messageOf(error)}`;
  return { kind: "refused", reason, alert: "internal_error" };
}
