/**
 * A TLS client of the test's own: dials a sidecar's public listener with a leaf from the agent, or any
 * TLS listener with given credentials, and reports the certificate of the listener and whether it took
 * us.
 *
 * @module
 */

import { X509Certificate } from "node:crypto";
import { connect } from "node:tls";
import type { AgentCalls } from "../mesh/agent_calls.ts";
import type { Place } from "./echo.ts";

export interface AgentLeaf {
  readonly SerialNumber: string;
  readonly CertPEM: string;
  readonly PrivateKeyPEM: string;
}

/** The leaf that the agent gives for `service` now. */
export async function readLeaf(agent: AgentCalls, service: string): Promise<AgentLeaf> {
  return await agent.get<AgentLeaf>(`/v1/agent/connect/ca/leaf/${service}`);
}

/** Serial number, lower-case hex without zeros in front, of the leaf that a sidecar presents. */
export async function presentedSerial(
  place: Place,
  options: { readonly agent: AgentCalls; readonly as: string },
): Promise<string> {
  const leaf = await readLeaf(options.agent, options.as);
  return await new Promise((resolve, reject) => {
    const socket = connect({
      host: place.host,
      port: place.port,
      cert: leaf.CertPEM,
      key: leaf.PrivateKeyPEM,
      // Only looked at, never trusted: the story compares it with the agent's leaf.
      rejectUnauthorized: false,
    }, () => {
      const { serialNumber } = socket.getPeerCertificate();
      socket.destroy();
      resolve(plainSerial(serialNumber));
    });
    socket.setTimeout(15_000, () => socket.destroy(new Error("No handshake within 15 s")));
    socket.on("error", reject);
  });
}

/** `09` and `9`, `0A:FF` and `aff` are the same number. */
export function plainSerial(text: string): string {
  return text.toLowerCase().replace(/[^0-9a-f]/g, "").replace(/^0+/, "");
}

/** The first certificate of a PEM text, as {@link plainSerial} writes it. */
export function serialOf(pem: string): string {
  return plainSerial(new X509Certificate(pem).serialNumber);
}

export interface ProbeOptions {
  /** Sent as SNI. */
  readonly servername?: string;
  /** PEM of what we show; absent: no certificate. */
  readonly cert?: string;
  readonly key?: string;
  /** The bytes that it sends to get an answer; one byte, as for an echo, if absent. */
  readonly says?: string;
  readonly timeoutMs?: number;
}

export type ProbeOutcome =
  | {
    readonly accepted: true;
    /** The serial of the leaf presented, see {@link plainSerial}. */
    readonly serial: string;
    /** Its subject alternative names: `DNS:web.example`, `URI:spiffe://...`. */
    readonly names: readonly string[];
    /** `TLSv1.3`. */
    readonly protocol: string;
  }
  | {
    readonly accepted: false;
    /**
     * The failure that the client noticed: a TLS alert such as `unknown_ca` or `certificate_required`,
     * `reset`, `closed` (an end without an alert) or `refused` (no listener). Which alert, and whether
     * the runtime shows one, differs with both sides: stories compare `accepted` alone.
     */
    readonly alert: string;
  };

/**
 * Whether a TLS listener in front of an echo takes this client. The listener's certificate is only
 * looked at, never trusted. Over TLS 1.3 a client's handshake is complete before the server has judged
 * its certificate, so only a byte that comes back proves that it was accepted.
 */
export function probeTls(place: Place, options: ProbeOptions = {}): Promise<ProbeOutcome> {
  const { servername, cert, key, says = "?", timeoutMs = 15_000 } = options;
  return new Promise((resolve, reject) => {
    let presented: Omit<Extract<ProbeOutcome, { accepted: true }>, "accepted"> | undefined;
    const socket = connect({
      host: place.host,
      port: place.port,
      ...(servername ? { servername } : {}),
      ...(cert && key ? { cert, key } : {}),
      rejectUnauthorized: false,
    }, () => {
      const { serialNumber, subjectaltname = "" } = socket.getPeerCertificate();
      presented = {
        serial: plainSerial(serialNumber),
        names: subjectaltname.split(", ").filter((name) => name !== ""),
        protocol: socket.getProtocol() ?? "",
      };
      socket.write(says);
    });
    const settle = (outcome: ProbeOutcome | Error) => {
      clearTimeout(timer);
      socket.destroy();
      if (outcome instanceof Error) reject(outcome);
      else resolve(outcome);
    };
    // Held open without an answer is neither.
    const timer = setTimeout(() => {
      settle(new Error(`No answer of ${place.host}:${place.port} within ${timeoutMs} ms`));
    }, timeoutMs);
    socket.on("data", () => {
      if (presented) settle({ accepted: true, ...presented });
    });
    socket.on("error", (error) => settle({ accepted: false, alert: alertOf(error) }));
    socket.on("end", () => settle({ accepted: false, alert: "closed" }));
    socket.on("close", () => settle({ accepted: false, alert: "closed" }));
  });
}

/** `... alert unknown ca ...` of OpenSSL and BoringSSL, `... alert: UnknownCA` of rustls. */
function alertOf(error: Error): string {
  const code = "code" in error ? String(error.code) : "";
  const text = `${code} ${error.message}`;
  if (/ECONNREFUSED|refused/i.test(text)) return "refused";
  const name = text.match(/alert:? (?:received )?(?:number )?([A-Za-z]\w*(?: \w+)*)/)?.[1] ??
    text.match(/_ALERT_([A-Z_]+)/)?.[1];
  if (name) {
    return name.replace(/([a-z])([A-Z])/g, "$1_$2").replaceAll(" ", "_").toLowerCase();
  }
  if (/ECONNRESET|EPIPE|reset|disconnected/i.test(text)) return "reset";
  if (/\beof\b|close_notify|closed/i.test(text)) return "closed";
  return text.trim();
}
