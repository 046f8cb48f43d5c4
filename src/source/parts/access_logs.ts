/**
 * The access log of a proxy from Consul's `AccessLogs` (`proxy-defaults`, as the agent merged it into the
 * registration). What cannot be used is refused by name; a format that cannot gives way to the default,
 * because a line in another form is worth more than none.
 *
 * @module
 */

import type { AccessLogSettings } from "../../consul/mod.ts";
import { compileFormat, type LogFormat } from "../../http/mod.ts";
import {
  type AccessLogPart,
  type AccessLogTarget,
  keepPart,
  type LogSamplingRule,
  type Refusal,
} from "../../snapshot/mod.ts";
import { formatPath, parsed } from "../../base/schema.ts";
import { LOG_SAMPLING } from "./log_sampling.ts";
import type { PartContext } from "./own_credentials.ts";

/** For formats that are checked and not used. */
const NO_SOURCE = { hostname: "", now: () => 0 };
const WHAT = "access log";
const SAMPLING_KEY = "postern_access_log_sampling";

export function accessLogPart(
  settings: AccessLogSettings | undefined,
  { previous, version, refused, sampling }: PartContext & {
    readonly sampling?: readonly LogSamplingRule[] | undefined;
  },
): AccessLogPart | null {
  if (!settings) return null;
  const to = targetOf(settings);
  if (typeof to === "string") {
    refused.push({ what: WHAT, reason: `${to}; nothing is written` });
    return null;
  }
  const format = formatOf(settings);
  const fault = formatFault(format);
  if (fault !== undefined) {
    const member = format.kind === "json" ? "JSONFormat" : "TextFormat";
    const reason = `${member} ${fault}. The default format is written instead`;
    refused.push({ what: WHAT, reason });
  }
  return keepPart<AccessLogPart>(previous?.accessLog, {
    to,
    format: fault === undefined ? format : { kind: "default" },
    listeners: !settings.disableListenerLogs,
    ...(sampling && { sampling }),
  }, version);
}

/** `undefined`: every line is written, also where the rules cannot be used. */
export function accessLogSampling(
  given: unknown,
  refused: Refusal[],
): readonly LogSamplingRule[] | undefined {
  if (given === undefined) return undefined;
  const read = parsed(LOG_SAMPLING, given, []);
  if (read.kind === "valid") return read.output;
  const [{ path, message } = { path: [], message: "" }] = read.problems;
  const reason = `${SAMPLING_KEY}${formatPath(path)} ${message}; every line is written`;
  refused.push({ what: WHAT, reason });
  return undefined;
}

/** Why it cannot be used, as the end of a sentence that begins with its name; `undefined`: it can. */
export function formatFault(format: LogFormat): string | undefined {
  const compiled = compileFormat(format, NO_SOURCE);
  return compiled.kind === "refused" ? compiled.reason : undefined;
}

/** A text is the reason why there is none. */
function targetOf({ type, path }: AccessLogSettings): AccessLogTarget | string {
  switch (type) {
    case "":
    case "stdout":
      return { kind: "stdout" };
    case "stderr":
      return { kind: "stderr" };
    case "file":
      return path === "" ? "Type is file and Path is empty" : { kind: "file", path };
    default:
      return `Type ${JSON.stringify(type.slice(0, 40))} is none of stdout, stderr and file`;
  }
}

/** The agent merges field by field, so that both may be there: Consul gives JSON to Envoy then. */
function formatOf({ jsonFormat, textFormat }: AccessLogSettings): LogFormat {
  if (jsonFormat !== "") return { kind: "json", json: jsonFormat };
  if (textFormat !== "") return { kind: "text", text: textFormat };
  return { kind: "default" };
}
