/** Lines of the log as datagrams to a syslog daemon of this machine, in the form of RFC 3164. @module */

import process from "node:process";
import { type Clock, ProxyError } from "../../base/mod.ts";
import { sendUnixDatagram, type WriteNow } from "../../net/mod.ts";

/** Facility `daemon`. */
const FACILITY = 3;
/** Severities, by the first letter of a level in text and in JSON. */
const SEVERITIES: Readonly<Record<string, number>> = { E: 3, W: 4, I: 6, D: 7, T: 7 };
const USUAL_SEVERITY = 6;
const LEVEL = /^\S+ \[(\w)|"level":"(\w)/;
/** Prefix of lines for the journal. */
const PRIORITY = /^<\d>/;
const MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec";

interface SyslogOptions {
  readonly path: string;
  readonly clock: Pick<Clock, "now">;
  /** For tests. */
  readonly send?: typeof sendUnixDatagram;
}

/** Throws `config_invalid` where nothing takes messages at `path` now. */
export function openSyslog({ path, clock, send = sendUnixDatagram }: SyslogOptions): WriteNow {
  const put = (line: string) => send(path, messageOf(line, new Date(clock.now())));
  const first = put("log opened");
  if (first !== "sent") {
    const why = first === "unsupported"
      ? "this runtime has no unix datagrams; use the executable on Linux"
      : "no syslog daemon takes messages there; start one, or leave -syslog out";
    throw new ProxyError("config_invalid", `Cannot log to -syslog ${path}: ${why}`);
  }
  const decoder = new TextDecoder();
  return (bytes) => {
    const lines = decoder.decode(bytes).split("\n").filter((line) => line !== "");
    const lost = lines.filter((line) => put(line) !== "sent");
    // The writer counts the piece as lost and reports it once the daemon is back.
    if (lost.length > 0) throw Object.assign(new Error("not sent"), { code: "syslog is away" });
    return bytes.length;
  };
}

function messageOf(written: string, at: Date): string {
  const line = written.replace(PRIORITY, "");
  const [, text, json] = LEVEL.exec(line) ?? [];
  const severity = SEVERITIES[(text ?? json ?? "").toUpperCase()] ?? USUAL_SEVERITY;
  const month = MONTHS.slice(3 * at.getMonth(), 3 * at.getMonth() + 3);
  const day = String(at.getDate()).padStart(2, " ");
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()]
    .map((part) => String(part).padStart(2, "0")).join(":");
  return `<${FACILITY * 8 + severity}>${month} ${day} ${time} postern[${process.pid}]: ${line}`;
}
