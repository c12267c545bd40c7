// What MariaDB's driver for JDBC reads. Arguments: port, password, more options of the address.
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;

class Client {
  static int count(ResultSet rows) throws SQLException {
    int count = 0;
    while (rows.next()) count++;
    return count;
  }

  public static void main(String[] arguments) throws SQLException {
    String address = "jdbc:mariadb://127.0.0.1:" + arguments[0] + "/performance_schema?user=me&password=" + arguments[1] + arguments[2];
    try (Connection client = DriverManager.getConnection(address); Statement plain = client.createStatement()) {
      PreparedStatement prepared = client.prepareStatement("select THREAD_ID, NAME, 1.5 from threads where THREAD_ID = ? and NAME like ?");
      ResultSetMetaData before = prepared.getMetaData();
      if (before != null) System.out.println("described: " + before.getColumnName(1) + " " + before.getColumnTypeName(1));
      prepared.setInt(1, 1);
      prepared.setString(2, "%");
      ResultSet rows = prepared.executeQuery();
      rows.next();
      System.out.println("prepared: " + rows.getLong(1) + " " + rows.getString(2) + " " + rows.getBigDecimal(3));
      try {
        plain.executeUpdate("drop table threads");
      } catch (SQLException error) {
        System.out.println("error: " + error.getErrorCode() + " " + error.getSQLState());
      }
      prepared = client.prepareStatement("select cast(? as datetime), ?");
      prepared.setTimestamp(1, Timestamp.valueOf("2024-02-29 01:02:03"));
      prepared.setBytes(2, new byte[] {(byte) 255, 0, 39});
      rows = prepared.executeQuery();
      rows.next();
      System.out.println("values: " + rows.getTimestamp(1) + " " + rows.getBytes(2).length);
      rows = plain.executeQuery("select version(), Max(THREAD_ID), now() from threads");
      rows.next();
      System.out.println("titles: " + rows.getMetaData().getColumnLabel(1) + " " + rows.getMetaData().getColumnLabel(2));
      System.out.println("time: " + (rows.getObject(3) instanceof Timestamp));
      prepared = client.prepareStatement("select NAME from setup_instruments order by 1");
      prepared.setFetchSize(7);
      System.out.println("cursor: " + count(prepared.executeQuery()));
      plain.setMaxRows(2);
      System.out.println("bounded: " + count(plain.executeQuery("select NAME from setup_instruments")));
      plain.setMaxRows(0);
      client.setAutoCommit(false);
      client.rollback(client.setSavepoint("here"));
      client.commit();
      client.setAutoCommit(true);
      System.out.println("transaction: " + client.getAutoCommit());
      System.out.println("columns: " + count(client.getMetaData().getColumns(null, null, "threads", "%")));
      rows = client.getMetaData().getPrimaryKeys(null, null, "threads");
      rows.next();
      System.out.println("key: " + rows.getString("COLUMN_NAME"));
      count(client.getMetaData().getProcedures(null, null, "%"));
      count(client.getMetaData().getBestRowIdentifier(null, null, "threads", 1, true));
      System.out.println("valid: " + client.isValid(5));
    }
  }
}
