/**
 * Lines of a sidecar's log about the plugin under development, for its author.
 *
 * @module
 */

/** Messages of `watched_plugin.ts`, which this program reads as text, not as a module. */
const LOADED = "loaded";
const WATCHED = "watched request";

interface DevLine {
  readonly kind: "loaded" | "refused" | "request" | "fault" | "line";
  readonly text: string;
}

type LogLine = Readonly<Record<string, unknown>>;

/** Reads a log line in JSON; `undefined`: it is not about the plugin. */
export function readLogLine(line: string): DevLine | undefined {
  let record: LogLine;
  try {
    record = JSON.parse(line) as LogLine;
  } catch {
    // Not a log line: an error of the runtime.
    return line.trim() === "" ? undefined : { kind: "fault", text: `${line}\n` };
  }
  const { time: _, level, message, plugin, listener: __, worker, ...facts } = record;
  if (plugin === undefined) return refusedOf(record);
  switch (message) {
    case LOADED:
      return worker === 0 || worker === undefined ? { kind: "loaded", text: "" } : undefined;
    case WATCHED:
      return { kind: "request", text: requestText(facts) };
    case "plugin failed": {
      const { hook = "", reason = "" } = facts;
      return { kind: "fault", text: `failed in ${hook}: ${placed(String(reason))}\n` };
    }
  }
  const shown = Object.entries(facts).map(([key, value]) => ` ${key}=${JSON.stringify(value)}`);
  return { kind: "line", text: `${level}: ${message}${shown.join("")}\n` };
}

/** The reason why the plugin is not loaded, on separate lines. */
function refusedOf({ level, reason, error }: LogLine): DevLine | undefined {
  const why = String(reason ?? error ?? "");
  if (!["warn", "error"].includes(String(level).toLowerCase()) || !why.includes("plugin")) return;
  const lines = why.replace(/^.*(?:cannot be loaded|Cannot load \S+ \(\S+\.use\)):\s*/s, "").split(
    "\n",
  );
  return { kind: "refused", text: lines.map((line) => `    ${line.trim()}\n`).join("") };
}

/** The place and the line on lines of their own. */
function placed(reason: string): string {
  return reason.replace(/ \((\S+:\d+:\d+): (.*)\)$/s, "\n    at $1\n       $2");
}

function requestText(
  { what, source, status, code, sentTimes, ms, request, response }: LogLine,
): string {
  const by = source === "" ? "" : `, asked by ${source}`;
  const head = `${what} -> ${status === 0 ? "no answer" : status} (${ms} ms${by})\n`;
  const lines = [
    ...changes("request", request),
    ...changes("response", response),
    ...(sentTimes === 0 && code !== "plugin_failed"
      ? ["answered by the plugin; not sent to the upstream"]
      : []),
    ...(Number(sentTimes) > 1 ? [`sent ${sentTimes} times`] : []),
    ...(code === "" ? [] : [`ended with ${code}`]),
  ];
  return head +
    (lines.length === 0 ? ["unchanged"] : lines).map((text) => `    ${text}\n`).join("");
}

function changes(of: string, text: unknown): string[] {
  const lines = String(text ?? "").split("\n").filter((line) => line !== "");
  return lines.map((line, index) =>
    `${(index === 0 ? of : "").padEnd("response".length)}  ${line}`
  );
}
