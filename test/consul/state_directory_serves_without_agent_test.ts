import { CONSUL } from "../kit/mesh/consul.ts";
import { stateDirectory } from "../stories/state_directory.ts";

stateDirectory(CONSUL);
