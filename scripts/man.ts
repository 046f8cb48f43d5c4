/** Manual pages in roff, made of the pages of help and the tables of flags. @module */

import { HELP_TOPICS, type HelpTopic } from "../src/app/command_line/args.ts";
import { FLAGS, PAGES } from "../src/app/command_line/help.ts";
import {
  commandLines,
  flagHead,
  type HelpPart,
  helpParts,
  wrap,
} from "../src/app/command_line/help_layout.ts";
import { VERSION } from "../src/app/process/version.ts";

export interface ManPage {
  /** `postern-proxy.1`. */
  readonly file: string;
  readonly text: string;
}

const SUMMARY = "sidecar proxy for Consul service mesh";

/** A page for each command. `date`: of the source, since the same source must give the same bytes. */
export function manPages(date: Date): readonly ManPage[] {
  const parts = new Map(HELP_TOPICS.map((topic) => [topic, helpParts(PAGES[topic])]));
  const purposes = new Map(
    (parts.get("") ?? []).flatMap((part) => part.kind === "table" ? part.rows : []),
  );
  return HELP_TOPICS.map((topic) => {
    const name = pageName(topic);
    const text = [
      `.TH ${name.toUpperCase()} 1 ${date.toISOString().slice(0, 10)} "postern ${VERSION}" Postern`,
      // No hyphens of the formatter's own, which readers would copy with a flag, and no wide gaps.
      ".nh",
      ".ad l",
      ".SH NAME",
      ...filled(`${name} - ${lowered(purposes.get(topic) ?? SUMMARY)}`),
      ...sections(topic, parts.get(topic) ?? []),
      ".SH SEE ALSO",
      HELP_TOPICS.filter((other) => other !== topic)
        .map((other) => `.BR ${roff(pageName(other))} (1)`).join(" ,\n"),
    ];
    return { file: `${name}.1`, text: `${text.join("\n")}\n` };
  });
}

function pageName(topic: HelpTopic): string {
  return topic === "" ? "postern" : `postern-${topic}`;
}

function sections(topic: HelpTopic, parts: readonly HelpPart[]): readonly string[] {
  const lines: string[] = [];
  let hasFlags = false;
  let isDescribed = false;
  for (const part of parts) {
    switch (part.kind) {
      case "usage":
        lines.push(".SH SYNOPSIS", ".nf", ...part.lines.map(roff), ".fi");
        break;
      case "paragraph":
        if (hasFlags) lines.push(".SH NOTES");
        else if (!isDescribed) lines.push(".SH DESCRIPTION");
        else lines.push(".PP");
        isDescribed = true;
        hasFlags = false;
        lines.push(...filled(part.text));
        break;
      case "examples":
        lines.push(".SH EXAMPLES");
        for (const [index, { comment, command }] of part.rows.entries()) {
          if (comment !== "") lines.push(...index === 0 ? [] : [".PP"], ...filled(comment));
          lines.push(".PP", ".RS 4", ".nf", ...commandLines(command, 70).map(roff), ".fi", ".RE");
        }
        break;
      case "table":
        lines.push(`.SH ${part.title.toUpperCase()}`);
        for (const [name, about] of part.rows) {
          lines.push(".TP", `.B ${roff(name)}`, ...filled(about));
        }
        hasFlags = true;
        break;
      case "flags":
        lines.push(".SH OPTIONS", ...options(topic));
        hasFlags = true;
    }
  }
  return lines;
}

function options(topic: HelpTopic): readonly string[] {
  return (FLAGS[topic] ?? []).flatMap(({ title, flags }) => [
    `.SS ${roff(title)}`,
    ...flags.flatMap((flag) => {
      const more = [
        ...flag.env === undefined ? [] : [`Variable: ${flag.env}.`],
        ...flag.byDefault === undefined ? [] : [`Default: ${flag.byDefault}.`],
      ];
      const [name = "", ...value] = flagHead(flag).split(" ");
      const head = value.length === 0
        ? `.B ${roff(name)}`
        : `.BI ${roff(name)} " ${roff(value.join(" "))}"`;
      return [".TP", head, ...filled([flag.help, ...more].join(" "))];
    }),
  ]);
}

function lowered(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

/** Lines that the formatter joins, short enough for its checker also where characters are escaped. */
function filled(text: string): readonly string[] {
  return wrap(text, 60).map(roff);
}

/** Text that roff prints as it is: no command, no hyphenation of flags, no quotes of its own. */
function roff(text: string): string {
  return text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replaceAll("'", "\\(aq")
    .replaceAll("`", "\\(ga").replaceAll("^", "\\(ha").replaceAll("~", "\\(ti")
    .replaceAll('"', "\\(dq").replace(/^\./gm, "\\&.");
}
