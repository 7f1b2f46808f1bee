package distributary;

import io.delta.storage.AzureLogStore;
import io.delta.storage.CloseableIterator;
import io.delta.storage.GCSLogStore;
import io.delta.storage.HadoopFileSystemLogStore;
import io.delta.storage.LogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.commons.io.IOUtils;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Versions of Delta tables on an object store, of which one is certain among all drivers.
 *
 * <p>Rule 1: a version is made by one put that is refused if something stands under its name. An
 * error is followed by a read: our bytes are ours, as each commit has a random id; other bytes are
 * another's version; nothing there means that nobody knows, and the commit fails.
 *
 * <p>Rule 2: below a folder that this JVM has taken ({@link #take}) a version is put only after the
 * folder's lease was seen to name this JVM's owner. Whoever takes the lease over makes a version of
 * each table. So who lost it can't put at that version or below, and above it only after it has
 * looked at the lease.
 *
 * <p>Compiled by Janino, which ignores what stands in angle brackets: hence the casts.
 */
public class ConditionalLogStore extends HadoopFileSystemLogStore {
  /** Begins what is said to a job that isn't the writer any more. */
  public static final String LOST = "DISTRIBUTARY_WRITER_LOST";

  /** Attempts to read a lease. */
  private static final int READS_MAX = 5;

  private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";

  /** By folder: where its lease lies, and whom it must name. */
  private static final Map<String, String[]> TAKEN = new ConcurrentHashMap<String, String[]>();

  public ConditionalLogStore(Configuration configuration) {
    super(configuration);
  }

  /** From now on versions below `folder` are made only while the object `lease` names `owner`. */
  public static void take(String folder, String lease, String owner) {
    TAKEN.put(folder + "/", new String[] {lease, owner});
  }

  public void write(
      Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
      throws IOException {
    if (!overwrite.booleanValue()) {
      requireTaken(path, configuration);
    }
    LogStore others = ofScheme(path.getFileSystem(configuration).getScheme());
    if (others != null) {
      others.write(path, actions, overwrite, configuration);
      return;
    }
    ByteArrayOutputStream entry = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      entry.write(((String) actions.next()).getBytes(StandardCharsets.UTF_8));
      entry.write('\n');
    }
    FileSystem files = path.getFileSystem(configuration);
    if (overwrite.booleanValue()) {
      FSDataOutputStream stream = files.create(path, true);
      stream.write(entry.toByteArray());
      stream.close();
    } else {
      create(files, path, entry.toByteArray());
    }
  }

  /** Google's and Azure's versions are certain by Delta's own. */
  private LogStore ofScheme(String scheme) {
    if (scheme.equals("gs")) {
      return new GCSLogStore(initHadoopConf());
    }
    return scheme.startsWith("abfs") ? new AzureLogStore(initHadoopConf()) : null;
  }

  private static void create(FileSystem files, Path path, byte[] entry) throws IOException {
    try {
      // `must`: a file system that doesn't know the condition refuses.
      FSDataOutputStream stream =
          (FSDataOutputStream) files.createFile(path).create().must(CONDITIONAL, true).build();
      stream.write(entry);
      stream.close();
    } catch (IOException error) {
      byte[] there = null;
      try {
        there = content(files, path);
      } catch (FileNotFoundException absent) {
        throw error;
      } catch (IOException unread) {
        error.addSuppressed(unread);
        throw error;
      }
      if (!Arrays.equals(there, entry)) {
        throw new FileAlreadyExistsException(path.toString());
      }
    }
  }

  private static void requireTaken(Path path, Configuration configuration) throws IOException {
    Iterator folders = TAKEN.entrySet().iterator();
    while (folders.hasNext()) {
      Map.Entry folder = (Map.Entry) folders.next();
      if (path.toString().startsWith((String) folder.getKey())) {
        String[] taken = (String[]) folder.getValue();
        Path lease = new Path(taken[0]);
        String said = words(lease.getFileSystem(configuration), lease);
        if (said.indexOf("\"" + taken[1] + "\"") < 0) {
          throw new IOException(LOST + ": " + lease + " names another writer; nothing was written");
        }
      }
    }
  }

  /** What a lease says. S3A looks at an object and then reads it: in between it may be renewed. */
  private static String words(FileSystem files, Path lease) throws IOException {
    for (int left = READS_MAX; true; left--) {
      try {
        return new String(content(files, lease), StandardCharsets.UTF_8);
      } catch (FileNotFoundException absent) {
        return "";
      } catch (IOException error) {
        if (left == 1) {
          throw error;
        }
      }
    }
  }

  private static byte[] content(FileSystem files, Path path) throws IOException {
    FSDataInputStream stream = files.open(path);
    try {
      return IOUtils.toByteArray(stream);
    } finally {
      stream.close();
    }
  }

  public Boolean isPartialWriteVisible(Path path, Configuration configuration) throws IOException {
    LogStore others = ofScheme(path.getFileSystem(configuration).getScheme());
    return others == null ? Boolean.FALSE : others.isPartialWriteVisible(path, configuration);
  }
}
