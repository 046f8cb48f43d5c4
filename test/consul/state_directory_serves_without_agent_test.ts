import { CONSUL } from "../kit/consul.ts";
import { stateDirectory } from "../stories/state_directory.ts";

stateDirectory(CONSUL);
