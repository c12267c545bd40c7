"""A page of Django asks for the author of each of 300 books; mended, with the books."""

import sys

import django
from django.conf import settings
from django.db import connection, models
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["testserver"],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
)
django.setup()


class Author(models.Model):
    name = models.TextField()

    class Meta:
        app_label = "shop"


class Book(models.Model):
    author = models.ForeignKey(Author, models.CASCADE)

    class Meta:
        app_label = "shop"


def page(request: HttpRequest) -> HttpResponse:
    books = Book.objects.select_related("author") if "mended" in sys.argv else Book.objects.all()
    names = [book.author.name for book in books]  # FAULT
    return HttpResponse(", ".join(names))


urlpatterns = [path("", page)]
with connection.schema_editor() as editor:
    editor.create_model(Author)
    editor.create_model(Book)
Author.objects.bulk_create(Author(name=f"author {i}") for i in range(300))
Book.objects.bulk_create(Book(author_id=1 + i) for i in range(300))
for _ in range(12):
    assert Client().get("/").status_code == 200
