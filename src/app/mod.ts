/** The program: command line, processes and threads, signals. @module */
export { runCommandLine } from "./command_line/command_line.ts";
